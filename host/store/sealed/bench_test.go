package sealed

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

// BenchmarkStore compares the stores in one run: files (with and without a sync of each event),
// JetStream with one server and with three, and the latter sealed. The servers are processes of
// their own on this machine.
func BenchmarkStore(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	inFiles := func(sync journal.Sync) store.Store {
		dir := b.TempDir()
		log := journal.OpenLog(filepath.Join(dir, "journal"), journal.LogOptions{Log: quiet, Sync: sync})
		s := files.Open(files.Options{Dir: dir, Journal: log, Log: quiet})
		b.Cleanup(func() { s.Close(); log.Close() })
		return s
	}
	inNATS := func(prefix string, replicas int, urls ...string) store.Store {
		s, err := jetstream.Open(b.Context(), jetstream.Options{URLs: urls, Replicas: replicas, Prefix: prefix, Make: jetstream.MakeNew, Log: quiet})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	one, three := natstest.Start(b), natstest.StartCluster(b, 3)
	ring, err := NewRing(newKey("a"))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		s    store.Store
	}{
		{"files", inFiles(journal.SyncNever)},
		{"files,sync", inFiles(journal.SyncAlways)},
		{"files,sealed", New(inFiles(journal.SyncNever), ring, "fleet")},
		{"jetstream,1", inNATS("a", 1, one.URL())},
		{"jetstream,3", inNATS("a", 3, three.URLs()...)},
		{"jetstream,3,sealed", New(inNATS("b", 3, three.URLs()...), ring, "fleet")},
	} {
		b.Run(c.name, func(b *testing.B) { storetest.Bench(b, c.s) })
	}
}

// TestStoreInJetStream runs the tests of all stores with one that is sealed in JetStream.
func TestStoreInJetStream(t *testing.T) {
	if !*storetest.Long {
		t.Skip("only with -long")
	}
	url, ring := natstest.Start(t).URL(), newRing(t, newKey("a"))
	storetest.RunLargest(t, func(t *testing.T) store.Store {
		s, err := jetstream.Open(t.Context(), jetstream.Options{URLs: []string{url}, Make: jetstream.MakeNew, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return New(s, ring, "fleet")
	})
}
