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

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Collection is the collection of plans and claims in the store of a fleet.
const Collection = "plans"

// The names of documents begin with these.
const (
	planPrefix  = "plan/"
	claimPrefix = "applied/"
	ownerPlans  = "owner/" // the list of the plans of an owner, which saves reading all plans
)

// storeTime bounds how long the store of a fleet may take.
const storeTime = 10 * time.Second

// shared keeps plans in the store of a fleet.
type shared struct {
	docs store.Store
	now  func() time.Time
	most quota

	mu      sync.Mutex // a leaf
	cleaned time.Time  // when this process has last cleaned up
}

var _ Place = (*shared)(nil)

// InFleet returns the plans of a fleet. The store must encrypt the documents.
func InFleet(docs store.Store, now func() time.Time) Place {
	return &shared{docs: docs, now: now, most: usual, cleaned: now()}
}

// Trusted implements [Place].
func (*shared) Trusted() bool { return true }

func planKey(id string) store.Key { return store.Key{Collection: Collection, Name: planPrefix + id} }

func claimKey(digest string) store.Key {
	return store.Key{Collection: Collection, Name: claimPrefix + digest}
}

func ownerKey(tag string) store.Key { return store.Key{Collection: Collection, Name: ownerPlans + tag} }

// kept is the content of a document: with a plan, with a claim, or with the plans of an owner.
type kept struct {
	// Write is unique among all forms of all processes.
	Write string `json:"write"`
	// Data is the plan or the claim. A large plan is in a blob.
	Data json.RawMessage `json:"data,omitempty"`
	Blob store.Digest    `json:"blob,omitempty"`
	// At is the time of the write, and Done the time when the plan expires, for removing old plans.
	At   time.Time `json:"at"`
	Done time.Time `json:"done,omitzero"`
	// Owner is the tag of the owner of a plan, and Plans are the plans of an owner, the oldest
	// first.
	Owner string  `json:"owner,omitempty"`
	Plans []entry `json:"plans,omitempty"`
}

// maxInline is the size of the largest plan inside its document, in bytes: listing reads all
// documents.
const maxInline = 16 << 10

func (p *shared) form(k kept) []byte {
	k.Write, k.At = store.NewID().String(), p.now().UTC()
	return wire.Marshal(k)
}

// limit bounds the time of ctx.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("it has not answered within %v", storeTime))
}

// failed adds the subject to an error of the store.
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
func (p *shared) Write(ctx context.Context, w Written) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	tag := tagOf(w.Owner)
	err := p.change(ctx, tag, func(all []entry) ([]entry, error) {
		gone, left, err := p.most.room(all, w.entry(), p.now())
		for _, e := range gone {
			if err := p.remove(ctx, e.ID); err != nil {
				return nil, err
			}
		}
		return left, err
	})
	if err != nil {
		return err
	}
	if err = p.write(ctx, w, tag); err != nil { // the plan does not count, unless the write succeeded nevertheless
		_ = p.change(ctx, tag, func(all []entry) ([]entry, error) {
			return slices.DeleteFunc(all, func(e entry) bool { return e.ID == w.ID }), nil
		})
	}
	return err
}

// change changes the list of the plans of an owner. f may be called several times.
func (p *shared) change(ctx context.Context, tag string, f func(all []entry) ([]entry, error)) error {
	for {
		before, err := p.docs.Get(ctx, ownerKey(tag))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return failed(err)
		}
		var k kept
		if err == nil {
			if k, err = readKept(before); err != nil {
				return err
			}
		}
		plans, err := f(k.Plans)
		if err != nil {
			return err
		}
		done, err := p.put(ctx, ownerKey(tag), before.Version, kept{Plans: plans})
		if done || err != nil {
			return err
		}
	}
}

// put replaces a document. done is false if another process has replaced the document meanwhile.
func (p *shared) put(ctx context.Context, key store.Key, old store.Version, k kept) (done bool, err error) {
	_, err = store.PutOwn(ctx, p.docs, key, old, p.form(k))
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return false, nil
	}
	return err == nil, failed(err)
}

// write writes a plan.
func (p *shared) write(ctx context.Context, w Written, tag string) error {
	k := kept{Data: w.Data, Done: w.Done.UTC(), Owner: tag}
	if len(w.Data) > maxInline {
		blob, err := p.docs.PutBlob(ctx, w.Data)
		if err != nil {
			return failed(err)
		}
		k.Data, k.Blob = nil, blob
	}
	for {
		before, err := p.docs.Get(ctx, planKey(w.ID))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return failed(err)
		}
		if done, err := p.put(ctx, planKey(w.ID), before.Version, k); done || err != nil {
			return err
		}
	}
}

// remove removes a plan; a missing plan is no error.
func (p *shared) remove(ctx context.Context, id string) error {
	d, err := p.docs.Get(ctx, planKey(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return failed(err)
	}
	k, err := readKept(d)
	if err != nil {
		return err
	}
	return p.drop(ctx, d, k)
}

func (p *shared) drop(ctx context.Context, d store.Document, k kept) error {
	err := p.docs.Remove(ctx, d.Key, d.Version)
	if err == nil && k.Blob != "" {
		err = p.docs.DropBlob(ctx, k.Blob) // the blob has the id of the plan, and no other plan is there
	}
	return failed(err)
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
func (p *shared) Claim(ctx context.Context, id, digest string, data []byte) (func(context.Context, []byte) error, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	version, err := store.PutOwn(ctx, p.docs, claimKey(digest), "", p.form(kept{Data: data}))
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return nil, fs.ErrExist
	}
	if err != nil {
		return nil, failed(err)
	}
	p.done(ctx, id)
	return func(ctx context.Context, data []byte) error {
		ctx, cancel := limit(ctx)
		defer cancel()
		_, err := store.PutOwn(ctx, p.docs, claimKey(digest), version, p.form(kept{Data: data}))
		return failed(err)
	}, nil
}

// done notes that a plan was applied. If the note fails, the plan stays as long as an open plan.
func (p *shared) done(ctx context.Context, id string) {
	d, err := p.docs.Get(ctx, planKey(id))
	if err != nil {
		return
	}
	k, err := readKept(d)
	if err != nil || k.Owner == "" {
		return
	}
	_ = p.change(ctx, k.Owner, func(all []entry) ([]entry, error) {
		for i := range all {
			if now := p.now().UTC(); all[i].ID == id && all[i].Done.After(now) {
				all[i].Done = now
			}
		}
		return all, nil
	})
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

// cleanEvery is how often a process looks for old plans.
const cleanEvery = time.Hour

// Clean implements [Place], at long intervals: Clean reads all documents.
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
	for d, err := range p.docs.Documents(ctx, Collection) {
		if err != nil && d.Key == (store.Key{}) {
			return
		}
		k, failing := readKept(d)
		switch {
		case err != nil || failing != nil: // a damaged document stays for people to look at
		case strings.HasPrefix(d.Name, planPrefix):
			if now.Sub(k.At) > keptAfter && now.Sub(k.Done) > keptAfter {
				_ = p.drop(ctx, d, k)
			}
		case strings.HasPrefix(d.Name, claimPrefix) && now.Sub(k.At) > keptAfter && over(k.Data):
			_ = p.docs.Remove(ctx, d.Key, d.Version)
		}
	}
}
