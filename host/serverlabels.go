package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
)

// ServerLabels are the labels of servers to which runs have sent content derived from labelled
// answers. The labels are a document of the store, which all processes with the store share. ServerLabels is
// safe for concurrent use.
type ServerLabels struct {
	store store.Store
	end   func() error
	last  atomic.Pointer[map[string]flow.Labels] // as they were read last
	mu    sync.Mutex                             // held while they are changed
}

// NewServerLabels returns the labels in a store. end closes the store; nil: the caller closes the
// store.
func NewServerLabels(s store.Store, end func() error) *ServerLabels {
	l := &ServerLabels{store: s, end: end}
	l.last.Store(&map[string]flow.Labels{})
	return l
}

// OpenServerLabels opens the labels of a configuration for a command without a Host. The caller
// must Close the labels.
func OpenServerLabels(ctx context.Context, cfg *config.Config, log *slog.Logger) (*ServerLabels, error) {
	if len(cfg.Store.NATS) > 0 {
		docs, err := commandStore(ctx, cfg, log)
		if err != nil {
			return nil, err
		}
		return NewServerLabels(docs, docs.Close), nil
	}
	docs := files.Open(files.Options{Dir: cfg.Store.Dir, Log: log})
	return NewServerLabels(docs, docs.Close), nil
}

var serverLabelsKey = store.Key{Collection: "flow", Name: "servers"}

// serverLabelsTime bounds how long the store is asked.
const serverLabelsTime = 5 * time.Second

// serverLabelsFile is the form of the document.
type serverLabelsFile struct {
	Servers map[string][]string `json:"servers"`
}

// Close releases the store of the labels.
func (l *ServerLabels) Close() error {
	if l.end == nil {
		return nil
	}
	return l.end()
}

// Last returns the labels as they were read last.
func (l *ServerLabels) Last() map[string]flow.Labels { return *l.last.Load() }

// Read returns the present labels. The error is the reason why the labels are unknown.
func (l *ServerLabels) Read(ctx context.Context) (map[string]flow.Labels, error) {
	ctx, cancel := context.WithTimeout(ctx, serverLabelsTime)
	defer cancel()
	all, _, err := l.read(ctx)
	return all, err
}

func (l *ServerLabels) read(ctx context.Context) (map[string]flow.Labels, store.Version, error) {
	all := map[string]flow.Labels{}
	d, err := l.store.Get(ctx, serverLabelsKey)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, "", fmt.Errorf("labels of servers: %w", err)
	default:
		var file serverLabelsFile
		if err := json.Unmarshal(d.Data, &file); err != nil {
			return nil, "", fmt.Errorf("labels of servers: document %s: %w", serverLabelsKey, err)
		}
		for server, names := range file.Servers {
			all[server] = flow.ParseLabels(names)
		}
	}
	l.last.Store(&all)
	return all, d.Version, nil
}

// Add adds labels of a server, and returns after the store has kept the labels.
func (l *ServerLabels) Add(ctx context.Context, server string, set flow.Labels) error {
	return l.change(ctx, func(all map[string]flow.Labels) bool {
		before := all[server]
		all[server] |= set
		return all[server] != before
	})
}

// Remove removes the labels of a server, and reports whether the server had any.
func (l *ServerLabels) Remove(ctx context.Context, server string) (had bool, err error) {
	err = l.change(ctx, func(all map[string]flow.Labels) bool {
		_, has := all[server]
		had = had || has // also if the outcome of a first attempt is unknown
		delete(all, server)
		return has
	})
	return had, err
}

// change changes the labels; f reports whether f has changed all.
func (l *ServerLabels) change(ctx context.Context, f func(all map[string]flow.Labels) bool) error {
	ctx, cancel := context.WithTimeout(ctx, serverLabelsTime)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		read, version, err := l.read(ctx)
		if err != nil {
			return err
		}
		all := maps.Clone(read)
		if !f(all) {
			return nil
		}
		file := serverLabelsFile{Servers: map[string][]string{}}
		for server, set := range all {
			file.Servers[server] = set.Names()
		}
		_, err = l.store.Put(ctx, serverLabelsKey, version, wire.Marshal(file))
		conflict := (*store.ConflictError)(nil)
		switch {
		case err == nil:
			l.last.Store(&all)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("labels of servers: %w", err)
		case errors.As(err, &conflict), errors.Is(err, store.ErrUnknown): // adding again does no harm
		default:
			return fmt.Errorf("labels of servers: %w", err)
		}
	}
}
