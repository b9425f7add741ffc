package documents

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Collection is the collection of the documents in the store of a fleet.
const Collection = "approvals"

// secretName is the name of the document with the secret. The keys of the fleet cannot replace the
// secret: remembered decisions must outlive the keys.
const secretName = "secret"

// How long to wait for the store, by default.
const (
	readTime  = 3 * time.Second
	writeTime = 10 * time.Second
)

func (o *Options) readTime() time.Duration  { return cmp.Or(o.Patience, readTime) }
func (o *Options) writeTime() time.Duration { return cmp.Or(o.Patience, writeTime) }

// limit bounds the time of ctx.
func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("it has not answered within %v", d))
}

// Options are the options of Shared.
type Options struct {
	// Store must encrypt all documents.
	Store store.Store
	// ID is the name of this process.
	ID string
	// Alive reports whether the process with an ID runs, as far as is known. Nil: all do.
	Alive func(id string) Life
	// Patience is how long to wait for the store; 0: 3 s for reading, and 10 s for a change.
	Patience time.Duration
	// End is called by Close; nil: nothing is.
	End func()
	Log *slog.Logger
}

// damaged logs an unreadable document, which does not count.
func (o *Options) damaged(err error) { o.Log.Warn("an approval is ignored", "err", err) }

// Life is the state of a process, as far as known.
type Life int

// The values of Life.
const (
	Runs    Life = iota // or not known yet
	Silent              // the process ran, and is silent now
	Nowhere             // an unknown process
)

// Shared keeps documents in the store of a fleet.
type Shared struct {
	opts   Options
	view   view
	secret chan []byte // has the secret, or nil until the secret is known
}

var _ Place = (*Shared)(nil)

// InFleet returns the documents in the store of a fleet. The first use asks the store. The caller
// must Close the documents before the store.
func InFleet(opts Options) *Shared {
	p := &Shared{opts: opts, secret: make(chan []byte, 1)}
	p.secret <- nil
	p.view.open(opts)
	return p
}

// Close implements [Place].
func (p *Shared) Close() {
	p.view.close()
	if p.opts.End != nil {
		p.opts.End()
	}
}

// Holder implements [Place].
func (p *Shared) Holder() (string, error) { return p.opts.ID, nil }

// life returns the state of a process.
func (p *Shared) life(id string) Life {
	switch {
	case id == "":
		return Nowhere
	case id == p.opts.ID || p.opts.Alive == nil:
		return Runs
	}
	return p.opts.Alive(id)
}

// Holds implements [Place].
func (p *Shared) Holds(name string) bool { return p.life(name) == Runs }

// Abandoned implements [Place]. An unknown process may be new, with no news yet in this process.
func (p *Shared) Abandoned(name string) bool { return p.life(name) == Silent }

// Changed implements [Place].
func (p *Shared) Changed() <-chan struct{} { return p.view.changed() }

// failed returns the meaning of a store's error for approvals.
func failed(err error) error {
	if err == nil || errors.Is(err, ErrChanged) {
		return err
	}
	return fmt.Errorf("approvals: the store of the fleet: %w", err)
}

// Secret implements [Place].
func (p *Shared) Secret(ctx context.Context) ([]byte, error) {
	ctx, cancel := limit(ctx, p.opts.readTime())
	defer cancel()
	var known []byte
	select {
	case known = <-p.secret:
	case <-ctx.Done():
		return nil, failed(fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx)))
	}
	defer func() { p.secret <- known }()
	if known != nil {
		return known, nil
	}
	key := store.Key{Collection: Collection, Name: secretName}
	for {
		d, err := p.opts.Store.Get(ctx, key)
		if err == nil && len(d.Data) < 32 {
			return nil, failed(&store.CorruptError{What: "document " + key.String(), Reason: "is no secret"})
		}
		if err == nil {
			known = d.Data
			return known, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, failed(err)
		}
		made := make([]byte, 32)
		_, _ = rand.Read(made) // never fails
		_, err = p.opts.Store.Put(ctx, key, "", made)
		conflict := (*store.ConflictError)(nil)
		if err != nil && !errors.Is(err, store.ErrUnknown) && !errors.As(err, &conflict) {
			return nil, failed(err)
		}
	}
}

// form is the content of a document.
type form struct {
	// Write is unique among all forms of all processes.
	Write string `json:"write"`
	// Used marks a document that a process has used and will remove.
	Used     bool            `json:"used,omitempty"`
	Approval json.RawMessage `json:"approval"`
}

// held is a document as it was read.
type held struct {
	version store.Version
	form
}

// readForm reads a document. ok reports whether the document belongs to approvals.
func readForm(d store.Document) (n Name, h held, ok bool) {
	n.Kind, n.ID, ok = strings.Cut(d.Name, "/")
	if !ok || n.Kind != Queue && n.Kind != Remembered {
		return n, h, false
	}
	h.version = d.Version
	return n, h, json.Unmarshal(d.Data, &h.form) == nil
}

func (n Name) key() store.Key { return store.Key{Collection: Collection, Name: n.String()} }

// View implements [Place]. The documents are as last reported by the store.
func (p *Shared) View(ctx context.Context, f func(Documents) error) error {
	ctx, cancel := limit(ctx, p.opts.readTime())
	defer cancel()
	seen, err := p.view.get(ctx)
	if err != nil {
		return failed(err)
	}
	return f(&changes{Shared: p, ctx: ctx, documents: seen})
}

// Fresh implements [Place].
func (p *Shared) Fresh(ctx context.Context, name Name) error {
	ctx, cancel := limit(ctx, p.opts.readTime())
	defer cancel()
	seen, err := p.view.get(ctx)
	if err != nil {
		return failed(err)
	}
	d, err := p.opts.Store.Get(ctx, name.key())
	if errors.Is(err, store.ErrNotFound) {
		err = nil // and d has no version
	}
	if err == nil && seen[name].version != d.Version {
		return fmt.Errorf("%s: %w", name, ErrChanged)
	}
	return failed(err)
}

// Change implements [Place]. The documents are read from the store, and f is called again if
// another process has changed a document that f changes.
func (p *Shared) Change(ctx context.Context, f func(Documents) error) error {
	ctx, cancel := limit(ctx, p.opts.writeTime())
	defer cancel()
	for {
		found := map[Name]held{}
		for d, err := range p.opts.Store.Documents(ctx, Collection) {
			if err != nil && d.Key != (store.Key{}) {
				p.opts.damaged(err)
				continue
			}
			if err != nil {
				return failed(err)
			}
			if n, h, ok := readForm(d); ok {
				found[n] = h
			}
		}
		c := &changes{Shared: p, ctx: ctx, documents: found}
		c.clean()
		err := f(c)
		if !errors.Is(err, ErrChanged) || ctx.Err() != nil {
			return err
		}
	}
}

// newForm returns a new form of a document.
func newForm(approval []byte, used bool) []byte {
	return wire.Marshal(form{Write: store.NewID().String(), Used: used, Approval: approval})
}
