// Package strict judges items of lists as strict clients do. The SDKs of such clients refuse a
// whole list, with the tools of all servers, if a single item violates their schemas. Begin with
// Judge.
//
// The rules are the rules of the SDKs for TypeScript (1 and 2), Python (1 and 2) and Go, and of
// mcp-go. Where the SDKs differ, the strictest rule counts.
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
	// stateless era. Both are the item itself if the item has no fault, and nil if the item is
	// Refused.
	Handshake, Stateless []byte
	// Refused is the reason why no strict client accepts the item, even without optional members;
	// otherwise "".
	Refused string
	// Dropped are the members removed or replaced, as paths, with the reason unless they are null:
	// at most maxDropped.
	Dropped []string
}

// maxDropped bounds Verdict.Dropped.
const maxDropped = 8

// Odd reports whether clients get the item other than as sent.
func (v *Verdict) Odd() bool { return v.Refused != "" || len(v.Dropped) > 0 }

// Judge judges an item of a list. stateless is set if the server is of the stateless era; clients
// of the handshake era then lack the parts unknown to them: an output schema of anything but an
// object, and properties of true or false. This lack does not count as odd. Judge takes time and
// memory in proportion to the size of the item.
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

// Sound reports whether all clients accept an item of the proxy unchanged.
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

// apply makes cuts. A cut can include further cuts.
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

// Summary returns the oddities of an item on one line, perhaps with names chosen by the server,
// made safe to show.
func (v *Verdict) Summary() string {
	if v.Refused != "" {
		return v.Refused
	}
	return "without " + strings.Join(v.Dropped, "; ")
}
