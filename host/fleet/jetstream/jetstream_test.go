package jetstream

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*storetest.Long {
		_ = flag.Set("test.parallel", "8") // parallel tests wait most of the time
	}
	goleak.VerifyTestMain(m)
}

// opener opens Stores on servers.
func opener(replicas int, urls ...string) storetest.Open {
	return func(t *testing.T) store.Store {
		t.Helper()
		return open(t, Options{URLs: urls, Replicas: replicas})
	}
}

func open(t *testing.T, opts Options) *Store {
	t.Helper()
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	opts.reconnectWait = 20 * time.Millisecond
	if opts.Make == MakeNone {
		opts.Make = MakeNew
	}
	if opts.Idle == 0 {
		opts.Idle = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Open(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestStore runs the tests of all stores on one server.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, opener(1, natstest.Start(t).URL()))
}
