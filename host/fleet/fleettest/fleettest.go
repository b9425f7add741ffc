// Package fleettest has the places that fleets of whole processes share in tests: folders, and in
// the long form the NATS servers that fleets have.
package fleettest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/foldertest"
)

// Place is a way to what is shared.
type Place interface {
	// URL is the address for the configuration of a process that has [Open].
	URL() string
	// Cut cuts the way, or heals it.
	Cut(bool)
	// Lose loses everything that the place has, as NATS can. The command fleet init makes it again,
	// empty, or what is kept in a folder as it was.
	Lose(t testing.TB)
	// Another returns another way to the same.
	Another(t testing.TB) Place
}

// New returns a place that is new: a folder, or NATS with the streams of a fleet that has the usual
// prefix, since commands make none.
func New(t testing.TB, inNATS bool) Place {
	t.Helper()
	if !inNATS {
		return folder{foldertest.New(t)}
	}
	at := natstest.Start(t)
	s, err := jetstream.Open(t.Context(), jetstream.Options{URLs: []string{at.URL()}, Make: jetstream.MakeNew, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	return through(t, at)
}

// Open opens the store at an address, which may be that of a Place. It is for host.OpenStore.
func Open(ctx context.Context, opts jetstream.Options) (store.Store, error) {
	if link, ok := foldertest.Find(opts.URLs[0]); ok {
		if opts.Make == jetstream.MakeAll && link.MakeAgain() {
			for _, name := range jetstream.Streams(opts.Prefix) {
				opts.Made(name)
			}
		}
		return link.Open(ctx)
	}
	return jetstream.Open(ctx, opts)
}

type folder struct{ *foldertest.Link }

func (f folder) Another(t testing.TB) Place {
	t.Helper()
	return folder{f.Link.Another(t)}
}

// server is a NATS server behind a proxy.
type server struct {
	*natstest.Proxy
	at *natstest.Server
}

func through(t testing.TB, at *natstest.Server) Place {
	t.Helper()
	return server{natstest.StartProxy(t, at.Address()), at}
}

func (s server) Cut(cut bool) { s.Refuse(cut) }

func (s server) Lose(t testing.TB) {
	t.Helper()
	s.at.Lose(t)
}

func (s server) Another(t testing.TB) Place {
	t.Helper()
	return through(t, s.at)
}
