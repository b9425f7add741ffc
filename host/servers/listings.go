package servers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// listings reads the lists of a server in parallel, so that a missing list does not hold back the
// other lists. serveAgreed owns the listings, and uses the results.
type listings struct {
	upstream *Upstream
	link     link.Link
	outcomes chan outcome // has room for an outcome of each surface
	wg       sync.WaitGroup
}

// outcome is the outcome of reading a list.
type outcome struct {
	surface wire.Surface
	listing *listing
	err     error
	covers  uint64 // for endListing
	notice  []byte
	heard   bool
	fresh   envelope.Freshness
}

func (u *Upstream) newListings(l link.Link) *listings {
	return &listings{upstream: u, link: l, outcomes: make(chan outcome, len(wire.Surfaces))}
}

// begin begins to read lists none of which is being read. The first requests are written in
// the order of surfaces. cost is charged to the server for each; 0: nothing is.
func (r *listings) begin(ctx context.Context, cost int, surfaces ...wire.Surface) {
	turn := make(chan struct{})
	close(turn)
	for _, s := range surfaces {
		r.upstream.noteReading(s)
		mine, next := turn, make(chan struct{})
		turn = next
		r.wg.Go(func() {
			<-mine
			written := onWrite(sync.OnceFunc(func() { close(next) }))
			if cost > 0 {
				r.upstream.allowance.spend(cost, ctx.Done(), r.link.Done())
			}
			got := r.upstream.read(ctx, r.link, s, written)
			written()
			r.outcomes <- got
		})
	}
}

// wait waits for the readings in progress, after the end of their context.
func (r *listings) wait() {
	r.wg.Wait()
	close(r.outcomes)
	for got := range r.outcomes {
		r.upstream.endListing(got.surface, got.covers)
	}
}

// onWrite is a wire.Permit that is called before a request is written, and allows the request.
type onWrite func()

func (f onWrite) Permitted() error {
	f()
	return nil
}

// listFirst reads all lists that the server offers, and passes each list on in the order of
// wire.Surfaces. After the list of tools, listFirst waits for the other lists for at most
// timings.patience: serveAgreed passes later lists on.
func (u *Upstream) listFirst(ctx context.Context, lists *listings, capabilities []byte) error {
	var offered []wire.Surface
	for _, s := range wire.Surfaces {
		if _, has := wire.Get(capabilities, s.Capability()); has {
			offered = append(offered, s)
		}
	}
	lists.begin(ctx, 0, offered...)
	read := make(map[wire.Surface]outcome)
	defer func() {
		for _, got := range read {
			u.endListing(got.surface, got.covers)
		}
	}()
	var late <-chan time.Time // nil before the list of tools
	impatient := false
	for _, s := range wire.Surfaces {
		if !slices.Contains(offered, s) {
			u.listed(List{Surface: s, Items: [][]byte{}, Fresh: envelope.Freshness{Nothing: true}})
			continue
		}
		for _, ok := read[s]; !ok && !impatient; _, ok = read[s] {
			if s != wire.Tools && late == nil {
				timer := time.NewTimer(u.timings.patience)
				defer timer.Stop()
				late = timer.C
			}
			select {
			case got := <-lists.outcomes:
				read[got.surface] = got
			case <-late:
				impatient = true
			}
		}
		got, ok := read[s]
		if !ok {
			u.log.Warn("the server does not answer the request for a list: it is used without the list for now", "list", string(s), "waited", u.timings.patience)
			continue
		}
		if err := u.use(lists.link, got); err != nil {
			if s == wire.Tools || over(ctx, lists.link, err) {
				return err
			}
			u.unlisted(s, err)
		}
	}
	return nil
}

// read reads a list. written is asked before each request is written.
func (u *Upstream) read(ctx context.Context, l link.Link, s wire.Surface, written wire.Permit) outcome {
	got := outcome{surface: s}
	got.covers, got.notice, got.heard = u.beginListing(s)
	got.fresh = u.freshness(l, s)
	ctx, cancel := u.deadline(ctx, s.ListMethod())
	defer cancel()
	got.listing, got.err = listAll(ctx, l, s, u.spec.MaxList, written, u.log)
	var refused *wire.RPCError
	if s == wire.Templates && errors.As(got.err, &refused) && refused.Code == wire.CodeMethodNotFound {
		got.listing, got.err = &listing{items: [][]byte{}}, nil // templates have no capability of their own
		got.fresh.Nothing = true
	}
	return got
}

// use passes on a list. After a failure, the old list is kept.
func (u *Upstream) use(l link.Link, got outcome) error {
	c, err := got.listing, got.err
	if err == nil && u.opts.KeepList != nil {
		if full := u.opts.KeepList(got.surface, c.memory()); full != nil {
			err = &ListError{Surface: got.surface, Err: full}
		}
	}
	if large := (*ListError)(nil); errors.As(err, &large) {
		large.Upstream = u.spec.Name
	}
	if err != nil {
		return err
	}
	if stateless, ok := l.(*stateless.Link); ok {
		got.fresh.Hints = c.hints
		if got.surface == wire.Tools {
			c.items = stateless.SetTools(c.items)
		}
	}
	u.listed(List{got.surface, c.items, c.meta, got.heard, got.notice, got.fresh})
	return nil
}
