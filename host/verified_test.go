package host

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/verify"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// verifyRuns verifies all runs that have ended in the journal of a store that signs. It returns how many
// go on with others, and what their records have.
func verifyRuns(t *testing.T, store string) (continued int, text string) {
	t.Helper()
	key, err := seal.ReadKey(t.Context(), filepath.Join(store, seal.KeyFile))
	if err != nil {
		return 0, "" // nothing has ended
	}
	dir := filepath.Join(store, "logs")
	files, err := journal.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]byte
	for _, f := range files {
		for line, err := range f.Each(t.Context(), dir) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, bytes.Clone(line))
		}
	}
	result, err := verify.File(t.Context(), lines, "", verify.Options{
		Keys: []seal.PublicKey{key.Public()}, Sandbox: sandboxtest.Guest(t), Limits: replay.AtMost(sandbox.Limits{}),
		Head: func(ctx context.Context, run string) string {
			rec, _ := journal.Find(ctx, dir, run)
			return rec.Head
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Runs {
		if !r.Verified && !strings.Contains(r.Reason, "the run has no end") {
			t.Errorf("%s", r.Text())
		}
		for _, c := range r.Checks {
			if c.Step == verify.Continued {
				continued++
			}
		}
	}
	return continued, string(bytes.Join(lines, []byte("\n")))
}
