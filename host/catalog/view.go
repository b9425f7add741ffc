package catalog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// view is one immutable state of the catalog.
type view struct {
	list     []listed         // what agents see, in order
	byName   map[string]Entry // the same by public name
	owners   map[string]Entry // every public name that is taken
	servers  []string         // script names, in the order of the configuration
	scripts  map[string]*scriptServer
	problems []string
}

type listed struct {
	Entry
	rank int // place of the source; within one, tools are ordered by name
}

func newView(builtins, composites []Entry, sources []*source) *view {
	v := &view{byName: map[string]Entry{}, owners: map[string]Entry{}, scripts: map[string]*scriptServer{}}
	for _, e := range builtins {
		v.add(e, 0, true)
	}
	for _, e := range composites {
		v.add(e, 1, true)
	}
	for i, s := range sources {
		v.addSource(s, i+2)
	}
	slices.SortFunc(v.list, func(a, b listed) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.Name, b.Name)
	})
	return v
}

func (v *view) add(e Entry, rank int, visible bool) {
	if owner, taken := v.owners[e.Name]; taken {
		v.problems = append(v.problems, fmt.Sprintf("tool name %q: %s hides %s (give one of them another name or prefix)",
			e.Name, describe(owner), describe(e)))
		return
	}
	v.owners[e.Name] = e
	if visible {
		v.byName[e.Name] = e
		v.list = append(v.list, listed{e, rank})
	}
}

func describe(e Entry) string {
	if e.Kind == Proxied {
		return fmt.Sprintf("tool %q of upstream %q", e.Tool, e.Server)
	}
	return "the " + e.Kind.String()
}

// Describe says whose tool e is, for messages.
func (e Entry) Describe() string { return describe(e) }

func (v *view) addSource(s *source, rank int) {
	script := &scriptServer{server: s.Server, hidden: map[string]bool{}, idents: map[string][]string{}}
	v.scripts[abi.Ident(s.Server)] = script
	v.servers = append(v.servers, abi.Ident(s.Server))
	for _, t := range s.tools {
		if _, twice := script.hidden[t.name]; twice {
			v.problems = append(v.problems, fmt.Sprintf("upstream %q lists tool %q twice; the first is used", s.Server, t.name))
			continue
		}
		hidden := s.Hides(t.name)
		script.add(t.name, hidden)
		name := PublicName(s.Prefix, t.name)
		definition, err := wire.Set(t.definition, wire.Quote(name), "name")
		if err != nil { // GetString has read the same object
			continue
		}
		e := Entry{Name: name, Kind: Proxied, Server: s.Server, Tool: t.name, Definition: definition}
		v.add(e, rank, !hidden && s.Exposes(t.name))
	}
	v.problems = append(v.problems, script.collisions()...)
}

func (v *view) sameList(w *view) bool {
	return slices.EqualFunc(v.list, w.list, func(a, b listed) bool {
		return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition)
	})
}

// ErrCursor says that a cursor is none of ours.
var ErrCursor = errors.New("invalid cursor (take nextCursor of an earlier page, or none)")

// Page returns at most limit tools behind cursor ("" for the first page) in
// the catalog's order: built-in tools, saved tools, upstreams as configured,
// by name within each. next is the cursor of the page that follows, "" when
// there is none. A cursor stands for a place in that order, so it stays good
// when the catalog changes.
func (c *Catalog) Page(cursor string, limit int) (page []Entry, next string, err error) {
	v := c.view.Load()
	start := 0
	if cursor != "" {
		rank, name, err := decodeCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		start, _ = slices.BinarySearchFunc(v.list, name, func(e listed, name string) int {
			if e.rank != rank {
				return e.rank - rank
			}
			if e.Name <= name {
				return -1
			}
			return 1
		})
	}
	end := min(len(v.list), start+limit)
	for _, e := range v.list[start:end] {
		page = append(page, e.Entry)
	}
	if end < len(v.list) {
		last := v.list[end-1]
		next = encodeCursor(last.rank, last.Name)
	}
	return page, next, nil
}

func encodeCursor(rank int, name string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%s", rank, name))
}

func decodeCursor(cursor string) (rank int, name string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", ErrCursor
	}
	number, name, ok := strings.Cut(string(raw), ":")
	if !ok {
		return 0, "", ErrCursor
	}
	if rank, err = strconv.Atoi(number); err != nil || rank < 0 {
		return 0, "", ErrCursor
	}
	return rank, name, nil
}
