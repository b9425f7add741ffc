package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// smokeListJSON is what --list --format json prints.
type smokeListJSON struct {
	Files []smokeListFile `json:"files"`
}

type smokeListFile struct {
	Path   string          `json:"path"`
	Error  string          `json:"error"` // "" if the file can be run
	Checks []smoke.Planned `json:"checks"`
}

// listChecks prints the checks that would be run.
func (v *smokeView) listChecks(ctx context.Context, runner *smoke.Runner, stdout io.Writer, args []string) error {
	if v.format != "text" && v.format != "json" {
		return &exitError{exitUsage, fmt.Errorf("--list: prints text or json, not %s", v.format)}
	}
	if v.watch || v.output != "" || len(v.reports) > 0 || v.opts.Record || v.opts.Update || v.opts.Coverage != nil {
		return &exitError{exitUsage, fmt.Errorf("--list: runs nothing (leave --watch, --output, --report, --record, --update and --coverage out)")}
	}
	names, err := smoke.Files(args)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	files := runner.List(ctx, names)
	checks, code := 0, 0
	for _, f := range files {
		checks += len(f.Checks)
		if f.Err != nil {
			code = exitUsage
		}
	}
	if v.format == "json" {
		err = writeSmokeJSON(stdout, files)
	} else {
		err = writeSmokeList(stdout, files)
	}
	if err == nil && checks == 0 && code == 0 {
		err = v.noneChosen()
	}
	if err == nil && code != 0 {
		err = &exitError{code: code}
	}
	return err
}

func writeSmokeJSON(w io.Writer, files []smoke.PlannedFile) error {
	list := smokeListJSON{Files: []smokeListFile{}}
	for _, f := range files {
		made := smokeListFile{Path: f.Path, Checks: f.Checks}
		if f.Err != nil {
			made.Error = f.Err.Error()
		}
		list.Files = append(list.Files, made)
	}
	return writeJSON(w, list)
}

// writeSmokeList writes lines for people:
//
//	checks.toml
//	  setup: create a user
//	  adds 2 and 3 [math, fast]
//	  the user is listed (needs create a user)
//
//	3 checks in 1 file would be run
func writeSmokeList(w io.Writer, files []smoke.PlannedFile) error {
	var b strings.Builder
	steps := 0
	for _, f := range files {
		b.WriteString(display.EscapeLine(f.Path) + "\n")
		if f.Err != nil {
			b.WriteString("  WRONG\n")
			for line := range strings.SplitSeq(f.Err.Error(), "\n") {
				b.WriteString("    " + display.EscapeLine(line) + "\n")
			}
		}
		for _, c := range f.Checks {
			steps++
			b.WriteString("  " + plannedLine(c) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s in %s would be run\n", count(steps, "check"), count(len(files), "file"))
	_, err := io.WriteString(w, b.String())
	return err
}

func plannedLine(c smoke.Planned) string {
	line := c.Name
	if c.Phase != "check" {
		line = c.Phase + ": " + line
	}
	if len(c.Tags) > 0 {
		line += " [" + strings.Join(c.Tags, ", ") + "]"
	}
	if len(c.Needs) > 0 {
		line += " (needs " + strings.Join(c.Needs, ", ") + ")"
	}
	if c.Skip != "" {
		line += " (skipped: " + c.Skip + ")"
	}
	return display.EscapeLine(line)
}
