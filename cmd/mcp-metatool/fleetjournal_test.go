package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
)

// evaluate runs code on a replica, and returns its result.
func (s *replica) evaluate(code string) string {
	s.m.t.Helper()
	return s.result(s.tool(`"run"`, "eval_starlark", fmt.Sprintf(`{"code":%q}`, code)))
}

// shows waits until a command on a machine shows a text.
func (m *machine) shows(text string, args ...string) string {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		out := m.run(0, args...)
		if strings.Contains(out, text) {
			return out
		}
		if time.Now().After(end) {
			m.t.Fatalf("%q shows\n%s\nand not %q", args, out, text)
		}
	}
}

// TestFleetJournal looks on one machine at the runs of another one, also when NATS is away.
func TestFleetJournal(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	place := fleettest.New(t, *long)
	a, b := newMachine(t, place.URL(), ""), newMachine(t, place.URL(), "")
	if out := b.run(0, "runs", "list"); !strings.Contains(out, "no runs") {
		t.Error(out)
	}
	first := a.serve()
	if got := first.evaluate("print('hello')\nreturn 41 + 1"); !strings.Contains(got, "42") {
		t.Fatal(got)
	}
	b.shows(" eval_starlark ", "runs", "list")
	if out := b.run(0, "runs", "show", "last"); !strings.Contains(out, "hello") {
		t.Error(out)
	}
	if out := b.run(0, "replay", "last"); !strings.Contains(out, "identical") {
		t.Error(out)
	}
	if out := b.run(0, "runs", "stats", "--since", "1h"); !strings.Contains(out, "eval_starlark") {
		t.Error(out)
	}

	// What ends while NATS is away is there afterwards; what is on the machine can be read.
	place.Cut(true)
	if got := first.evaluate("return 43"); !strings.Contains(got, "43") {
		t.Fatal(got)
	}
	if out := b.run(1, "runs", "list"); !strings.Contains(out, "the records of other replicas are missing: ") || !strings.Contains(out, " eval_starlark ") {
		t.Error(out)
	}
	place.Cut(false)
	for end := time.Now().Add(time.Minute); strings.Count(b.run(0, "runs", "list"), "eval_starlark") != 2; {
		if time.Now().After(end) {
			t.Fatal(b.run(0, "runs", "list"))
		}
	}
}

// TestStoreCopy copies from files to NATS, and from there to the files of another machine.
func TestStoreCopy(t *testing.T) {
	t.Parallel()
	url := fleettest.New(t, *long).URL()
	a, b := newMachine(t, url, ""), newMachine(t, url, "")
	a.write("alone.toml", "[store]\ndir = \"store\"\n[upstream.harbour]\ncommand = \"mcp-metatool\"\nargs = [\"demo-upstream\", \"harbour\"]\n")
	if err := os.MkdirAll(filepath.Join(a.dir, "store", "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.write("store/tools/more.json", `{"version":"1.0","name":"more","description":"Adds one.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"code":"return params.n + 1"}`)
	a.run(0, "run", "more", "--config", "alone.toml", "--params", `{"n":1}`)
	listed := a.run(0, "runs", "list", "--config", "alone.toml", "--json")
	copied := "tools and versions copied, 0 are there already\n1 runs copied, 0 are there already\n"
	same := "tools and versions copied, 1 are there already\n0 runs copied, 1 are there already\n"
	toNATS, toFiles := []string{"store", "copy", "--from", "files", "--to", "nats"}, []string{"store", "copy", "--from", "nats", "--to", "files"}
	if out := a.run(0, append(toNATS, "--dry-run")...); !strings.Contains(out, strings.ReplaceAll(copied, " copied", " would be copied")) {
		t.Error(out)
	}
	for _, copy := range []struct {
		m    *machine
		args []string
	}{{a, toNATS}, {b, toFiles}} {
		for _, want := range []string{copied, same} {
			if out := copy.m.run(0, append(copy.args, "--yes")...); !strings.Contains(out, want) {
				t.Errorf("%q: %s", copy.args, out)
			}
		}
	}
	b.write("alone.toml", "[store]\ndir = \"store\"\n")
	if out := b.run(0, "runs", "list", "--config", "alone.toml", "--json"); out != listed {
		t.Errorf("%s is %s", listed, out)
	}
	if out := b.run(0, "run", "more", "--config", "alone.toml", "--params", `{"n":2}`); out != "3\n" {
		t.Error(out)
	}
}
