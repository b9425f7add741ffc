package documents

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
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

// changes are documents of a fleet as they were read. A change succeeds only if no other process
// has changed the document since, and fails with ErrChanged otherwise.
type changes struct {
	*Shared
	ctx       context.Context
	documents map[Name]held // not shared once something is written
	own       bool          // documents is a copy
}

var _ Documents = (*changes)(nil)

// IDs implements [Documents].
func (c *changes) IDs(kind string) ([]string, error) {
	var ids []string
	for n, h := range c.documents {
		if n.Kind == kind && !h.Used {
			ids = append(ids, n.ID)
		}
	}
	return ids, nil
}

// Read implements [Documents].
func (c *changes) Read(n Name, v any) error {
	h, ok := c.documents[n]
	if !ok || h.Used {
		return missing(n)
	}
	if err := json.Unmarshal(h.Approval, v); err != nil {
		return fmt.Errorf("approvals: %s: %w", n, err)
	}
	return nil
}

// Write implements [Documents].
func (c *changes) Write(n Name, v any) error {
	body := wire.Marshal(v)
	if len(body) > maxSize {
		return tooLarge(len(body))
	}
	return c.put(n, newForm(body, false))
}

// put replaces a document that is unchanged since the read.
func (c *changes) put(n Name, data []byte) error {
	version, err := store.PutOwn(c.ctx, c.opts.Store, n.key(), c.documents[n].version, data)
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, data, version)
	return nil
}

// changed gives the error about a document that another process has changed its kind.
func (c *changes) changed(n Name, err error) error {
	conflict := (*store.ConflictError)(nil)
	if errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return fmt.Errorf("approvals: %s: %w", n, ErrChanged)
	}
	return failed(err)
}

// note keeps the current content of the store; no data: no document.
func (c *changes) note(n Name, data []byte, version store.Version) {
	if !c.own {
		c.documents, c.own = maps.Clone(c.documents), true
	}
	delete(c.documents, n)
	if data != nil {
		_, h, _ := readForm(store.Document{Key: n.key(), Version: version, Data: data})
		c.documents[n] = h
	}
}

// Remove implements [Documents].
func (c *changes) Remove(n Name) error {
	h, ok := c.documents[n]
	if !ok {
		return nil
	}
	err := c.opts.Store.Remove(c.ctx, n.key(), h.version)
	if errors.Is(err, store.ErrUnknown) && c.ctx.Err() == nil {
		if _, failing := c.opts.Store.Get(c.ctx, n.key()); errors.Is(failing, store.ErrNotFound) {
			err = nil
		} else {
			err = &store.ConflictError{What: "document " + n.String()} // which reads the document again
		}
	}
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, nil, "")
	return nil
}

// Use implements [Documents]. Before the removal, the document is marked as used up, in a form that
// only this process has written: a removal alone would not show which process has removed the
// document.
func (c *changes) Use(n Name) error {
	h, ok := c.documents[n]
	if !ok || h.Used {
		return missing(n)
	}
	if err := c.put(n, newForm(h.Approval, true)); err != nil {
		return err
	}
	_ = c.Remove(n) // the mark counts in any case, and an expired document is removed
	return nil
}

// usedFor is how long used documents stay if the process that should have removed them has died. No
// process needs so long to find out whether its own use counts.
const usedFor = time.Hour

// clean removes used documents. A document that cannot be removed now is removed later.
func (c *changes) clean() {
	for n, h := range c.documents {
		var about struct {
			Expires time.Time `json:"expires"`
		}
		if h.Used && json.Unmarshal(h.Approval, &about) == nil && time.Since(about.Expires) > usedFor {
			_ = c.Remove(n)
		}
	}
}

// view has the documents as last reported by the store.
type view struct {
	opts    Options
	ctx     context.Context // of watching
	stop    context.CancelFunc
	started sync.Once
	all     sync.Once // closes ready
	working sync.WaitGroup

	mu    sync.Mutex    // a leaf
	ready chan struct{} // closed when all documents were seen once
	seen  map[Name]held // not changed, but replaced
	next  chan struct{} // closed when seen is replaced
}

func (v *view) open(opts Options) {
	v.opts, v.seen, v.next, v.ready = opts, map[Name]held{}, make(chan struct{}), make(chan struct{})
	v.ctx, v.stop = context.WithCancel(context.Background())
}

func (v *view) close() {
	v.stop()
	v.started.Do(func() {}) // from now on no goroutine is started
	v.working.Wait()
}

func (v *view) start() {
	v.started.Do(func() { v.working.Go(v.watch) })
}

// get returns all documents, and waits until they are known.
func (v *view) get(ctx context.Context) (map[Name]held, error) {
	v.start()
	select {
	case <-v.ready:
	case <-v.ctx.Done():
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen, nil
}

func (v *view) changed() <-chan struct{} {
	v.start()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.next
}

func (v *view) set(seen map[Name]held) {
	v.mu.Lock()
	v.seen = seen
	close(v.next)
	v.next = make(chan struct{})
	v.mu.Unlock()
}

// again is how long to wait before documents are watched again after an error.
const again = time.Second

// watch follows the documents until v is closed.
func (v *view) watch() {
	for v.ctx.Err() == nil {
		err := v.follow()
		if v.ctx.Err() != nil {
			return
		}
		v.opts.Log.Warn("the approvals of the fleet are read again", "err", err)
		select {
		case <-time.After(again):
		case <-v.ctx.Done():
		}
	}
}

// follow follows the documents until an error.
func (v *view) follow() error {
	seen, ready := map[Name]held{}, false
	for c, err := range v.opts.Store.Watch(v.ctx, Collection) {
		if err != nil && c.Key != (store.Key{}) {
			v.opts.damaged(err)
			c.Version = "" // a damaged document does not count
		} else if err != nil {
			return err
		}
		n, h, ok := readForm(c.Document)
		switch {
		case c.Ready:
			ready = true
		case ok && c.Version != "":
			seen[n] = h
		default:
			delete(seen, n)
		}
		if ready {
			v.set(maps.Clone(seen))
			v.all.Do(func() { close(v.ready) })
		}
	}
	return nil
}
