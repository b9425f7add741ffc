package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
)

// leaveRun begins a durable run in a store, as a process that dies then, with the intents of some
// calls. It returns the id of the run.
func leaveRun(t *testing.T, dir string, begin journal.Begin, about durable.About, calls ...journal.CallRecord) string {
	t.Helper()
	key, err := requeststate.LoadKey(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := durable.NewAEAD(key)
	if err != nil {
		t.Fatal(err)
	}
	runs := durable.New(durable.Options{
		Store: durable.NewFolder(filepath.Join(dir, "durable")), AEAD: aead, Owner: func() (string, error) { return "gone", nil },
	})
	defer runs.Close(t.Context())
	id := journal.NewID(time.Now())
	r, err := runs.Begin(t.Context(), id, time.Now(), &begin, about)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		r.Keep(func(l *journal.Lines) { l.Call(id, &c) })
		if err := r.Intend(t.Context(), id, c.Seq, c.Server, c.Tool, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestDurableDocs reads the example of docs/durable.md, and runs its commands with runs that
// were left.
func TestDurableDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	dir := t.TempDir()
	example := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}`)
	var outputs []string
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "durable.md")) {
		switch b.language {
		case "toml":
			found, err := bundle.Parse([]byte(b.text), "durable.md")
			if err != nil || len(found) != 1 || !found[0].Durable || found[0].InDoubt != tools.AskInDoubt {
				t.Fatalf("%+v, %v", found, err)
			}
			kept, err := tools.OpenStore(dir, tools.StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = kept.Save(found[0].Definition)
			if err := errors.Join(err, kept.Close()); err != nil {
				t.Fatal(err)
			}
		case "sh":
			for line := range strings.Lines(b.text) {
				begin := journal.Begin{Params: []byte("{}"), Guest: sandbox.GuestDigest(), Saved: true}
				begin.Limits.Timeout = time.Minute
				begin.Definition = tools.Definition{
					Name: "move_issue", InputSchema: []byte(`{"type":"object"}`), Code: "return 42", Durability: tools.Durability{Durable: true},
				}
				id := leaveRun(t, dir, begin, durable.About{})
				line = example.ReplaceAllLiteralString(line, id)
				cmd := exec.Command("sh", "-c", line)
				cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				outputs = append(outputs, string(out))
			}
		}
	}
	for i, want := range []string{"waiting", "42", "the next serve ends it"} {
		if len(outputs) != 3 || !strings.Contains(outputs[i], want) {
			t.Errorf("the commands print %q, want %q", outputs, want)
		}
	}
}
