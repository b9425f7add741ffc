// Package strict says which items of lists strict clients accept. The SDKs of such clients
// refuse a whole list, with the tools of all servers, if a single item of it is not as their
// schemas want it.
//
//	strict.go    Judge and its Verdict
//	rules.go     what the members of items must be
//	read.go      reads an item along these rules, in one pass
//	output.go    output schemas that can be compiled
//	pattern.go   regular expressions of ECMAScript
//	text.go      addresses, templates and points in time
//
// The rules are those of the SDKs for TypeScript (1 and 2), Python (1 and 2) and Go, and of
// mcp-go. Where they differ, the strictest counts.
package strict

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Verdict says how clients get an item.
type Verdict struct {
	// Handshake is the item for clients of the handshake era, Stateless for clients of the
	// stateless era. Both are the item itself if nothing is wrong with it. They are nil if it
	// is Refused.
	Handshake, Stateless []byte
	// Refused says why no strict client accepts the item, whatever optional members are
	// removed; "" if that is not so.
	Refused string
	// Dropped are the members that were removed or replaced, as paths, with the reason unless
	// they are null: at most maxDropped.
	Dropped []string
}

// maxDropped bounds Verdict.Dropped.
const maxDropped = 8

// Odd reports whether clients do not get the item as it was sent.
func (v *Verdict) Odd() bool { return v.Refused != "" || len(v.Dropped) > 0 }

// Judge judges an item of a list. stateless says that its server is of the stateless era, so
// that clients of the handshake era may lack what they cannot have: an output schema of
// anything but an object, and properties that are true or false. That is not counted as odd.
// Judge takes time and memory in
// proportion to the size of the item.
func Judge(surface wire.Surface, item []byte, stateless bool) Verdict {
	if why := readable(item); why != "" {
		return Verdict{Refused: why}
	}
	legacy := read(surface, item, false, stateless)
	if legacy.why != "" {
		return Verdict{Refused: legacy.why}
	}
	v := Verdict{Handshake: item, Stateless: item, Dropped: legacy.dropped}
	if len(legacy.cuts) == 0 {
		return v // the rules of the stateless era are not stricter
	}
	modern := read(surface, item, true, stateless)
	same := slices.Equal(modern.cuts, legacy.cuts)
	v.Handshake, v.Stateless = apply(item, legacy.cuts), apply(item, modern.cuts)
	if same {
		v.Stateless = v.Handshake
	}
	for _, path := range modern.dropped {
		if !slices.Contains(v.Dropped, path) && len(v.Dropped) < maxDropped {
			v.Dropped = append(v.Dropped, path)
		}
	}
	return v
}

// Sound reports whether all clients accept an item of ours as it is.
func Sound(surface wire.Surface, item []byte) bool {
	if readable(item) != "" {
		return false
	}
	r := read(surface, item, false, false)
	return r.why == "" && len(r.cuts) == 0
}

// cut replaces item[start:end].
type cut struct {
	start, end int
	with       string
}

// apply makes cuts. A cut can include others.
func apply(item []byte, cuts []cut) []byte {
	if len(cuts) == 0 {
		return item
	}
	slices.SortStableFunc(cuts, func(a, b cut) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	var out bytes.Buffer
	out.Grow(len(item) + 16)
	at := 0
	for _, c := range cuts {
		if c.end <= at {
			continue
		}
		if c.start > at {
			out.Write(item[at:c.start])
		}
		out.WriteString(c.with)
		at = c.end
	}
	out.Write(item[at:])
	return out.Bytes()
}

// Summary says on one line what is odd about an item. It may contain names that the server
// chose, made safe to show.
func (v *Verdict) Summary() string {
	if v.Refused != "" {
		return v.Refused
	}
	return "without " + strings.Join(v.Dropped, "; ")
}
