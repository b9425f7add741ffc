package durable_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/verify"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
)

// verifyAll verifies all runs that have ended in the journals of processes with one key: also those that
// go on with runs of others that were killed. It returns how many do.
func verifyAll(t *testing.T, cfgs ...*config.Config) (continued int) {
	t.Helper()
	keys, err := host.VerifyKeys(t.Context(), cfgs[0], slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(sandbox.Options{CacheDir: guestcache.Dir()})
	defer box.Close()
	opts := verify.Options{Keys: keys, Sandbox: box, Limits: replay.AtMost(sandbox.Limits{}), Head: func(ctx context.Context, run string) string {
		for _, cfg := range cfgs {
			if rec, err := journal.Find(ctx, cfg.JournalDir(), run); err == nil && rec.ID == run && rec.Head != "" {
				return rec.Head
			}
		}
		return ""
	}}
	ended := 0
	for _, cfg := range cfgs {
		for rec, err := range journal.Scan(t.Context(), cfg.JournalDir(), journal.Filter{}) {
			if err != nil || !rec.Done || rec.Parent != nil {
				continue
			}
			runs, err := (journal.Reader{Dir: cfg.JournalDir()}).Lines(t.Context(), rec.ID)
			if err != nil {
				t.Error(err)
				continue
			}
			var lines [][]byte
			for _, r := range runs {
				lines = append(lines, r.Lines...)
			}
			result, err := verify.File(t.Context(), slices.Clip(lines), rec.ID, opts)
			if err != nil {
				t.Fatal(err)
			}
			if !result.Verified() {
				t.Errorf("continues %q: %s", rec.Continues, result.Text())
			}
			ended++
			if rec.Continues != "" {
				continued++
			}
		}
	}
	t.Logf("%d runs are verified, of which %d go on with others", ended, continued)
	return continued
}
