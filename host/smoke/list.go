package smoke

import (
	"cmp"
	"context"
	"slices"
)

// Planned is a check that would run.
type Planned struct {
	Name  string   `json:"name"`
	Phase string   `json:"phase"` // "setup", "check" or "teardown"
	Line  int      `json:"line"`  // in the file, from 1
	Tags  []string `json:"tags"`
	Row   int      `json:"row"` // from 1; 0 if the check has no rows
	// Call is the tool of a call, Server the server of a check of lists; "" where absent.
	Call   string `json:"call"`
	Server string `json:"server"`
	// Needs are the names of the checks whose captured values the check needs.
	Needs []string `json:"needs"`
	// Skip is why the check will be skipped; "" for a check that will run.
	Skip string `json:"skip"`
}

// PlannedFile is a file of checks that would run.
type PlannedFile struct {
	Path   string
	Err    error // the file is wrong; see report.File
	Checks []Planned
}

// List returns the checks that Run would run, in the same order, without secrets. List starts no
// process, and reads the files, with their schemas, rows and configurations.
func (r *Runner) List(ctx context.Context, paths []string) []PlannedFile {
	listing := &run{Runner: r}
	var files []PlannedFile
	for _, path := range paths {
		f := listing.load(ctx, path)
		made := PlannedFile{Path: path, Err: f.err, Checks: []Planned{}}
		for _, c := range f.checks {
			made.Checks = append(made.Checks, c.plan())
		}
		files = append(files, made)
	}
	return files
}

func (c *checkRun) plan() Planned {
	mask := c.fileRun.mask
	p := Planned{
		Name: mask(c.Name), Phase: c.Phase.key(), Line: c.Line, Tags: append([]string{}, c.Tags...), Row: c.Row,
		Server: c.Server, Needs: []string{}, Skip: mask(c.Skip),
	}
	if c.Server == "" {
		p.Call = mask(cmp.Or(c.Call, c.toolName()))
	}
	for _, name := range c.needs {
		if from := mask(c.fileRun.file.captures[name].check.Name); !slices.Contains(p.Needs, from) {
			p.Needs = append(p.Needs, from)
		}
	}
	return p
}
