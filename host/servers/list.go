package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
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

// add adds the items and the _meta of a page. more means: the page has unread items beyond
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
