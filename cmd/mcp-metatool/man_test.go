package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/man"
)

// requests are the requests of roff that pages use, and whether the next line belongs to
// each: the term of TP.
var requests = map[string]bool{"TH": false, "SH": false, "B": false, "br": false, "PP": false, "nf": false, "fi": false, "TP": true}

// TestManPages checks that each command has a page with its synopsis, all of its flags and
// commands, and that all pages are in the macros of man(7).
func TestManPages(t *testing.T) {
	root := newRoot()
	cli.AddLooks(root, nil, nil)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	dir := filepath.Join(t.TempDir(), "man1")
	if err := man.Write(root, dir, "2026-01-02"); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, cmd := range man.Documented(root) {
		name := man.Name(cmd) + ".1"
		want = append(want, name)
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(page)
		checkRoff(t, name, text)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if has := strings.Contains(text, `\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)); has == f.Hidden {
				t.Errorf("%s: names --%s: %t", name, f.Name, has)
			}
		})
		for _, c := range cmd.Commands() {
			if has := strings.Contains(text, "\n.B \""+man.Roff.Replace(c.Name())+"\"\n"); has == c.Hidden {
				t.Errorf("%s: names %s: %t", name, c.Name(), has)
			}
		}
		if !strings.Contains(text, man.Roff.Replace(cmd.UseLine())) && cmd.Runnable() {
			t.Errorf("%s has no synopsis", name)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) < 40 {
		t.Errorf("the pages are %q, want %q", got, want)
	}
	mandoc(t, dir, want)
}

// checkRoff checks that a page has only known requests, and no text that is taken for one.
func checkRoff(t *testing.T, name, text string) {
	t.Helper()
	literal, wants := false, ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		request := ""
		if strings.HasPrefix(line, ".") {
			request, _, _ = strings.Cut(line[1:], " ")
			if _, known := requests[request]; !known {
				t.Errorf("%s:%d: unknown request %q", name, i+1, line)
			}
		}
		if wants != "" && request != "" && request != "B" {
			t.Errorf("%s:%d: %q where the term of %s belongs", name, i+1, line, wants)
		}
		wants = ""
		if requests[request] {
			wants = request
		}
		if (request == "nf") && literal || request == "fi" && !literal {
			t.Errorf("%s:%d: %q", name, i+1, line)
		}
		literal = (literal || request == "nf") && request != "fi"
		if strings.HasPrefix(line, "'") || strings.IndexFunc(line, func(r rune) bool { return r > '~' || r < ' ' }) >= 0 {
			t.Errorf("%s:%d: %q is not plain text", name, i+1, line)
		}
		if strings.Count(line, `"`)%2 != 0 && request != "" {
			t.Errorf("%s:%d: an open quote: %q", name, i+1, line)
		}
	}
	if literal || wants != "" {
		t.Errorf("%s ends in the middle", name)
	}
}

// mandoc has mandoc check the pages, if it is installed.
func mandoc(t *testing.T, dir string, names []string) {
	t.Helper()
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Log("mandoc is not installed")
		return
	}
	cmd := exec.CommandContext(t.Context(), "mandoc", append([]string{"-T", "lint", "-W", "warning"}, names...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
}
