package files

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open returns the Store of a folder, with a journal of its own, as another process has it.
func open(t *testing.T, dir string, opts journal.LogOptions) *Store {
	t.Helper()
	opts.Log = quiet
	log := journal.OpenLog(filepath.Join(dir, "journal"), opts)
	s := Open(Options{Dir: dir, Journal: log, Log: quiet})
	t.Cleanup(func() {
		s.Close()
		log.Close()
	})
	return s
}

// TestStore runs the tests of all stores.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, dir, journal.LogOptions{}) })
}
