package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Collection is the collection of plans and claims in the store of a fleet.
const Collection = "plans"

// The names of documents begin with these.
const (
	planPrefix  = "plan/"
	claimPrefix = "applied/"
)

// storeTime bounds how long the store of a fleet may take.
const storeTime = 10 * time.Second

// shared keeps plans in the store of a fleet.
type shared struct {
	docs store.Store
	now  func() time.Time

	mu      sync.Mutex // a leaf
	cleaned time.Time  // when this process has last cleaned up
}

var _ Place = (*shared)(nil)

// InFleet returns the plans of a fleet. The store must encrypt what it keeps.
func InFleet(docs store.Store, now func() time.Time) Place {
	return &shared{docs: docs, now: now, cleaned: now()}
}

// Trusted implements [Place].
func (*shared) Trusted() bool { return true }

func planKey(id string) store.Key { return store.Key{Collection: Collection, Name: planPrefix + id} }

func claimKey(digest string) store.Key {
	return store.Key{Collection: Collection, Name: claimPrefix + digest}
}

// kept is the content of a document with a plan, and of one with a claim.
type kept struct {
	// Write tells this form from all others of all processes.
	Write string `json:"write"`
	// Data is the plan or the claim. A large plan is in a blob.
	Data json.RawMessage `json:"data,omitempty"`
	Blob store.Digest    `json:"blob,omitempty"`
	// At is when it was written, for removing what is old.
	At time.Time `json:"at"`
}

// maxInline is the size of the largest plan that is in its document, in bytes: all documents are
// read to list them.
const maxInline = 16 << 10

func (p *shared) form(data []byte, blob store.Digest) []byte {
	return wire.Marshal(kept{Write: store.NewID().String(), Data: data, Blob: blob, At: p.now().UTC()})
}

// limit bounds the time of ctx.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("it has not answered within %v", storeTime))
}

// failed says what an error of the store is about.
func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return fmt.Errorf("the store of the fleet: %w", err)
}

// Write implements [Place].
func (p *shared) Write(ctx context.Context, id string, data []byte) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	blob := store.Digest("")
	if len(data) > maxInline {
		var err error
		if blob, err = p.docs.PutBlob(ctx, data); err != nil {
			return failed(err)
		}
		data = nil
	}
	form := p.form(data, blob)
	for {
		before, err := p.docs.Get(ctx, planKey(id))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return failed(err)
		}
		conflict := (*store.ConflictError)(nil)
		if _, err = store.PutOwn(ctx, p.docs, planKey(id), before.Version, form); !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknown) {
			return failed(err)
		}
	}
}

// Read implements [Place].
func (p *shared) Read(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	d, err := p.docs.Get(ctx, planKey(id))
	if err != nil {
		return nil, failed(err)
	}
	k, err := readKept(d)
	if err != nil || k.Blob == "" {
		return k.Data, err
	}
	data, err := p.docs.Blob(ctx, k.Blob)
	return data, failed(err)
}

func readKept(d store.Document) (k kept, err error) {
	if err := json.Unmarshal(d.Data, &k); err != nil {
		return k, fmt.Errorf("%s: %w", d.Key, err)
	}
	return k, nil
}

// IDs implements [Place].
func (p *shared) IDs(ctx context.Context) ([]string, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	var ids []string
	for d, err := range p.docs.Documents(ctx, Collection) {
		if err != nil && d.Key == (store.Key{}) {
			return nil, failed(err)
		}
		if id, ok := strings.CutPrefix(d.Name, planPrefix); ok && isID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids) // they begin with the time
	return ids, nil
}

// Claim implements [Place].
func (p *shared) Claim(ctx context.Context, digest string, data []byte) (func(context.Context, []byte) error, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	version, err := store.PutOwn(ctx, p.docs, claimKey(digest), "", p.form(data, ""))
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return nil, fs.ErrExist
	}
	if err != nil {
		return nil, failed(err)
	}
	return func(ctx context.Context, data []byte) error {
		ctx, cancel := limit(ctx)
		defer cancel()
		_, err := store.PutOwn(ctx, p.docs, claimKey(digest), version, p.form(data, ""))
		return failed(err)
	}, nil
}

// Claimed implements [Place].
func (p *shared) Claimed(ctx context.Context, digest string) ([]byte, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	d, err := p.docs.Get(ctx, claimKey(digest))
	if err != nil {
		return nil, failed(err)
	}
	k, err := readKept(d)
	return k.Data, err
}

// cleanEvery is how often a process looks for what is too old.
const cleanEvery = time.Hour

// Clean implements [Place]. It does so once in a while: all documents are read for it.
func (p *shared) Clean(ctx context.Context, over func(claim []byte) bool) {
	now := p.now()
	p.mu.Lock()
	due := now.Sub(p.cleaned) > cleanEvery
	if due {
		p.cleaned = now
	}
	p.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	type document struct {
		store.Document
		kept
	}
	var plans []document
	for d, err := range p.docs.Documents(ctx, Collection) {
		if err != nil && d.Key == (store.Key{}) {
			return
		}
		k, failing := readKept(d)
		switch {
		case err != nil || failing != nil: // damaged: it stays for people to look at
		case strings.HasPrefix(d.Name, planPrefix):
			plans = append(plans, document{d, k})
		case now.Sub(k.At) > keptAfter && over(k.Data):
			_ = p.docs.Remove(ctx, d.Key, d.Version)
		}
	}
	slices.SortFunc(plans, func(a, b document) int { return strings.Compare(a.Name, b.Name) })
	for i, d := range plans {
		if len(plans)-i <= maxKept && now.Sub(d.At) <= keptAfter {
			continue
		}
		if err := p.docs.Remove(ctx, d.Key, d.Version); err == nil && d.Blob != "" {
			_ = p.docs.DropBlob(ctx, d.Blob) // it has the id of the plan, so no other plan is in it
		}
	}
}
