package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// Limits of a listing. They are far above the lists of real servers, and end the listing of a
// server that always returns another cursor.
const (
	maxPages = 1000
	maxItems = 20000
	maxMeta  = 64 << 10 // bytes of _meta merged from several pages
)

// listing collects the items of a surface of a server, page by page.
type listing struct {
	surface wire.Surface
	most    int   // bytes of items and meta; 0: any number
	bytes   int64 // of the items and meta
	seen    int   // items of the server, including items left out
	log     *slog.Logger
	items   [][]byte
	keys    map[string]bool
	meta    []byte // raw object; nil for none
	hints   *envelope.Hints
}

// listAll lists a surface of the server behind l: the raw items in the server's order, the _meta of
// all pages as a single object, and the cache hints that hold for all pages. Items without a name,
// with the name of an earlier item, or open to different readings by JSON parsers are left out with
// a warning. At a repeated cursor, too many pages or too many items, the listing ends with a
// warning, and listAll returns the items so far. Items left out count as well. The error is a
// *ListError if the items and the _meta have more than most bytes. written is the Permit of each
// request.
func listAll(ctx context.Context, l link.Link, surface wire.Surface, most int, written wire.Permit, log *slog.Logger) (*listing, error) {
	method := surface.ListMethod()
	c := &listing{surface: surface, most: most, log: log, items: [][]byte{}, keys: make(map[string]bool)}
	params := []byte("{}")                      // some servers reject a request without params
	cursors := make(map[[sha256.Size]byte]bool) // digests, since a cursor can be as long as a message
	for page := 1; ; page++ {
		reply, err := l.Call(ctx, wire.Call{Method: method, Params: params, Permit: written})
		if err != nil {
			return nil, err
		}
		if reply.Error != nil {
			return nil, fmt.Errorf("server refused %s: %w", method, parseError(reply.Error))
		}
		more, err := c.add(reply.Result)
		if err != nil {
			return nil, err
		}
		cursor, ok := wire.GetString(reply.Result, "nextCursor")
		continues := ok && cursor != ""
		digest := sha256.Sum256([]byte(cursor))
		switch {
		case more || continues && (page == maxPages || c.seen == maxItems):
			log.Warn(method+" does not end: the list was cut off", "pages", page, "items", len(c.items))
			return c, nil
		case !continues:
			return c, nil
		case cursors[digest]:
			log.Warn(method+" repeats a cursor: the list ends with this page", "cursor", link.Excerpt(cursor), "items", len(c.items))
			return c, nil
		}
		cursors[digest] = true
		raw, _ := wire.Get(reply.Result, "nextCursor")
		params, _ = wire.Set(nil, raw, "cursor")
	}
}

// add adds the items and the _meta of a page. more means that the page has unread items beyond
// maxItems.
func (c *listing) add(page []byte) (more bool, err error) {
	name := string(c.surface)
	raw, ok := wire.Get(page, name)
	if !ok {
		return false, fmt.Errorf("answer to %s has no %q", c.surface.ListMethod(), name)
	}
	items, more, err := wire.FirstElements(raw, maxItems-c.seen)
	if err != nil {
		return false, fmt.Errorf("answer to %s: %q: %w", c.surface.ListMethod(), name, err)
	}
	c.seen += len(items)
	large := len(page) > budget.Small
	for _, item := range items {
		if err := c.addItem(item, large); err != nil {
			return false, err
		}
	}
	hints := envelope.ReadHints(page)
	if c.hints != nil {
		hints = hints.And(*c.hints)
	}
	c.hints = &hints
	return more, c.addMeta(page, large)
}

// addItem adds an item, unless the item is to be left out. large marks an item of a large message,
// which counts in the budget until the last reference is gone.
func (c *listing) addItem(item []byte, large bool) error {
	name := string(c.surface)
	key, ok := wire.GetString(item, c.surface.Key())
	err := wire.ItemShape.Check(item)
	switch {
	case !ok || key == "":
		c.log.Warn("an item without a "+c.surface.Key()+" was left out", "list", name, "item", link.Excerpt(string(item[:min(len(item), rpc.MaxExcerpt)])))
		return nil
	case err != nil:
		c.log.Warn("an item was left out because clients could mistake it for another", "list", name, "item", link.Excerpt(key), "err", link.Excerpt(err.Error()))
		return nil
	case c.keys[key]:
		c.log.Warn("a second item with the same "+c.surface.Key()+" was left out", "list", name, "item", link.Excerpt(key))
		return nil
	}
	if err := c.count(len(item)); err != nil {
		return err
	}
	c.keys[key] = true
	if large {
		item = bytes.Clone(item)
	}
	c.items = append(c.items, item)
	return nil
}

// count counts kept bytes. The error is a *ListError.
func (c *listing) count(bytes int) error {
	if c.bytes += int64(bytes); c.most > 0 && c.bytes > int64(c.most) {
		return &ListError{Surface: c.surface, Limit: c.most}
	}
	return nil
}

// addMeta adds the _meta of a page, unless the _meta is too large. For large see addItem.
func (c *listing) addMeta(page []byte, large bool) error {
	meta, ok := wire.Get(page, "_meta")
	if ok && wire.IsObject(meta) {
		meta, ok = withoutServerInfo(meta)
	}
	switch {
	case !ok || !wire.IsObject(meta):
		return nil
	case c.meta != nil && len(c.meta)+len(meta) > maxMeta:
		c.log.Warn("the _meta of a later page was left out because it is too large", "list", string(c.surface), "bytes", len(meta))
		return nil
	}
	if err := c.count(len(meta)); err != nil {
		return err
	}
	if large {
		meta = bytes.Clone(meta)
	}
	c.meta = merge(c.meta, meta)
	return nil
}

// memory returns the memory of the list in use, in bytes: each definition is kept as sent and under
// the public name, for clients of either era if the eras differ, together with names, an index and
// the view of clients with narrowed rights.
func (c *listing) memory() int64 {
	const copies, each = 3, 1 << 10
	return copies*c.bytes + each*int64(len(c.items))
}

// withoutServerInfo returns the _meta of a page without the members about the server. ok is false
// if nothing is left.
func withoutServerInfo(meta []byte) (rest []byte, ok bool) {
	if _, found := wire.Get(meta, envelope.KeyServerInfo); !found {
		return meta, true
	}
	rest, err := wire.Delete(meta, envelope.KeyServerInfo)
	return rest, err == nil && string(rest) != "{}"
}

// merge adds the members of the object more to the object meta, which may be nil. Members of more
// take precedence.
func merge(meta, more []byte) []byte {
	if meta == nil {
		return more
	}
	before, _ := wire.Members(meta)
	after, _ := wire.Members(more) // the caller has checked that both are objects
	var names []string
	values := map[string][]byte{}
	for _, m := range slices.Concat(before, after) {
		if _, again := values[m.Name]; !again {
			names = append(names, m.Name)
		}
		values[m.Name] = m.Value
	}
	merged := wire.NewObject(len(meta) + len(more))
	for _, name := range names {
		merged.Raw(name, values[name])
	}
	return merged.Bytes()
}

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

// listState tracks the announced changes of a surface. announced >= begun >= listed.
type listState struct {
	announced uint64 // number of announcements so far
	begun     uint64 // announced when the last listing began
	listed    uint64 // announced when the last finished listing began
	// since is the time of the first announcement not covered by a finished listing, and sinceBegun
	// the time of the first announcement after the last listing began.
	since, sinceBegun time.Time
	reading           bool               // from listings.begin to endListing
	heard             bool               // the server has announced a change since the last listing began
	notice            []byte             // params of the last announcement; nil for none
	fresh             envelope.Freshness // of the last list, except for Read, the time of the last attempt to read the list
}

// announced maps each list_changed notification to the changed surfaces.
var announced = func() map[string][]wire.Surface {
	m := make(map[string][]wire.Surface)
	for _, s := range wire.Surfaces {
		m[s.ChangedMethod()] = append(m[s.ChangedMethod()], s)
	}
	return m
}()

// announce records changed lists, and has serve read them again. Any number of changes to a list
// during a reading cause a single further listing. heard means that the server has announced the
// change, with params notice, or nil.
func (u *Upstream) announce(surfaces []wire.Surface, heard bool, notice []byte) {
	now := time.Now()
	u.mu.Lock()
	for _, s := range surfaces {
		l := u.lists[s]
		if l.announced == l.listed {
			l.since = now
		}
		if l.announced == l.begun {
			l.sinceBegun = now
		}
		l.announced++
		if heard {
			l.heard, l.notice = true, notice
		}
	}
	u.mu.Unlock()
	select {
	case u.relist <- struct{}{}:
	default: // the pending token's receiver sees this change too
	}
}

// ListChanged has a list read again because another process of the server has announced a change. n
// is the other process's notification.
func (u *Upstream) ListChanged(n wire.Inbound) { u.announce(announced[n.Method], true, n.Params) }

// changedLists returns the changed surfaces without a listing since the change, except surfaces
// being read.
func (u *Upstream) changedLists() []wire.Surface {
	u.mu.Lock()
	defer u.mu.Unlock()
	var surfaces []wire.Surface
	for _, s := range wire.Surfaces {
		if l := u.lists[s]; l.announced > l.begun && !l.reading {
			surfaces = append(surfaces, s)
		}
	}
	return surfaces
}

// noteReading notes that a surface is going to be listed.
func (u *Upstream) noteReading(s wire.Surface) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[s].reading = true
}

// beginListing is called before a surface is listed. covers is passed to endListing. heard means that
// the server has announced a change; notice is the params of the notification, or nil.
func (u *Upstream) beginListing(s wire.Surface) (covers uint64, notice []byte, heard bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	notice, l.notice = l.notice, nil
	heard, l.heard = l.heard, false
	l.begun = l.announced
	return l.begun, notice, heard
}

// endListing is called after a successful or failed listing of a surface; after a failure the old
// list stays.
func (u *Upstream) endListing(s wire.Surface, covers uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	l.listed, l.reading = covers, false
	l.since = l.sinceBegun // meaningless without an announcement since
	close(u.listingEnded)
	u.listingEnded = make(chan struct{})
}

// rereadExpired has lists read again after the time that the server allows to keep them, unless the
// server announces changes. Otherwise a client that asks for a list again would never see a change.
func (u *Upstream) rereadExpired(surfaces []wire.Surface) {
	now := time.Now()
	var expired []wire.Surface
	u.mu.Lock()
	for _, s := range surfaces {
		if l := u.lists[s]; u.status.State == Ready && l.announced == l.listed && l.fresh.Expired(now) && now.Sub(l.fresh.Read) >= u.timings.reread {
			l.fresh.Read = now // also if reading fails
			expired = append(expired, s)
		}
	}
	u.mu.Unlock()
	if len(expired) > 0 {
		u.announce(expired, false, nil)
	}
}

// Changing reports whether the server has announced a change of any of these surfaces without a
// listing since.
func (u *Upstream) Changing(surfaces ...wire.Surface) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.State == Ready && slices.ContainsFunc(surfaces, func(s wire.Surface) bool {
		return u.lists[s].announced > u.lists[s].listed
	})
}

// AwaitLists waits until the announced changes of these surfaces are listed: OnList has returned,
// or reading the list has failed. The wait ends at the latest wait after the announcement of the
// oldest change, or when ctx ends. AwaitLists does not wait while the upstream is down. Expired
// lists are read again, and count as changed.
func (u *Upstream) AwaitLists(ctx context.Context, wait time.Duration, surfaces ...wire.Surface) {
	u.rereadExpired(surfaces)
	var targets []uint64
	for {
		u.mu.Lock()
		if targets == nil {
			targets = make([]uint64, len(surfaces))
			for i, s := range surfaces {
				targets[i] = u.lists[s].announced
			}
		}
		var deadline time.Time
		now := time.Now()
		for i, s := range surfaces {
			l := u.lists[s]
			if late := l.since.Add(wait); l.listed < targets[i] && late.After(now) && late.After(deadline) {
				deadline = late
			}
		}
		ready, ended, stateChanged := u.status.State == Ready, u.listingEnded, u.stateChanged
		u.mu.Unlock()
		if !ready || deadline.IsZero() {
			return
		}
		timer := time.NewTimer(deadline.Sub(now))
		select {
		case <-ended:
		case <-stateChanged:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
