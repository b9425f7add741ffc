package catalog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// list is the visible part of a surface.
type list struct {
	items    []item // in order
	meta     []byte // raw _meta of the list; nil for none
	problems []Problem
}

// Problem is a fault in the lists of upstreams that makes an item unusable or ambiguous.
type Problem struct {
	Text   string // a readable line
	Remedy string // how to solve the problem
	// Drifted is the upstream whose definitions differ from the pinned ones, if the problem is
	// about a drift; else "".
	Drifted string
	// Odd is the upstream that lists items that strict clients refuse, if the problem is about
	// them; else "".
	Odd string
}

// String returns text and remedy on a single line.
func (p Problem) String() string { return p.Text + " (" + p.Remedy + ")" }

// item is an item of a list.
type item struct {
	key        string // public name or URI
	rank       int    // position of the source; items of a source are ordered by key
	definition []byte
	handshake  []byte // the same for clients of the handshake era
	refused    bool   // removed at the end
}

func (l list) same(m list) bool {
	return bytes.Equal(l.meta, m.meta) && slices.EqualFunc(l.items, m.items, func(a, b item) bool {
		return a.key == b.key && bytes.Equal(a.definition, b.definition)
	})
}

// builder collects a list.
type builder struct {
	surface wire.Surface
	rights  *bearer.Rights
	pins    Pins
	// withheld are the items that are not in the list because of their pins.
	withheld []withheld
	odd      map[string]oddities // by server
	list
}

func (b *builder) add(rank int, key string, definition, handshake []byte) {
	b.items = append(b.items, item{key: key, rank: rank, definition: definition, handshake: handshake})
}

func (b *builder) problem(remedy, format string, args ...any) {
	b.problems = append(b.problems, Problem{Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// item is add for an item of an upstream.
func (b *builder) item(rank int, key string, of sourceItem) {
	b.items = append(b.items, item{key, rank, of.definition, of.handshake, of.refused})
}

func (b *builder) finish() list {
	b.items = slices.DeleteFunc(b.items, func(i item) bool { return i.refused })
	slices.SortFunc(b.items, func(a, b item) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.key, b.key)
	})
	return b.list
}

// ErrCursor says that a cursor was not issued by this catalog.
var ErrCursor = errors.New("invalid cursor (take nextCursor of an earlier page, or none)")

// Page is a part of a list.
type Page struct {
	Items     [][]byte // raw definitions; not to be changed
	Handshake [][]byte // the same for clients of the handshake era
	Next      string   // cursor of the next page; "" for the last page
	Meta      []byte   // raw _meta of the whole list; nil for none
}

// pageBytes is the total size of the definitions on a page, in bytes, unless a single definition is
// larger.
const pageBytes = 4 << 20

// Page returns at most limit items of a surface after cursor ("" for the first page). The order is:
// built-in tools, saved tools, then upstreams in the order of the configuration; by name or URI
// within each. A cursor is a position in this order, so it stays valid when the catalog changes.
// The error is ErrCursor.
func (s *Scope) Page(surface wire.Surface, cursor string, limit int) (Page, error) {
	l := s.view.Load().lists[surface]
	start := 0
	if cursor != "" {
		rank, key, err := decodeCursor(cursor)
		if err != nil {
			return Page{}, err
		}
		start, _ = slices.BinarySearchFunc(l.items, key, func(e item, key string) int {
			if e.rank != rank {
				return e.rank - rank
			}
			if e.key <= key {
				return -1
			}
			return 1
		})
	}
	end, bytes := start, 0
	p := Page{Meta: l.meta}
	for _, e := range l.items[start:min(len(l.items), start+limit)] {
		if bytes += max(len(e.definition), len(e.handshake)); bytes > pageBytes && end > start {
			break
		}
		end++
		p.Items = append(p.Items, e.definition)
		p.Handshake = append(p.Handshake, e.handshake)
	}
	if end < len(l.items) {
		last := l.items[end-1]
		p.Next = encodeCursor(last.rank, last.key)
	}
	return p, nil
}

// Hints returns how long a client may keep a list, according to the upstreams. An upstream that has
// not listed anything since its start says nothing.
func (s *Scope) Hints(surface wire.Surface) envelope.Hints {
	return envelope.Combine(time.Now(), s.view.Load().fresh[surface])
}

func encodeCursor(rank int, key string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%s", rank, key))
}

func decodeCursor(cursor string) (rank int, key string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", ErrCursor
	}
	number, key, ok := strings.Cut(string(raw), ":")
	if !ok {
		return 0, "", ErrCursor
	}
	if rank, err = strconv.Atoi(number); err != nil || rank < 0 {
		return 0, "", ErrCursor
	}
	return rank, key, nil
}
