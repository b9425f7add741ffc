package config

import (
	"cmp"
	"regexp"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Redactor replaces secrets, and what the patterns match, by **** in texts and JSON that
// are stored. JSON stays valid JSON. Like a [Masker], it finds secrets that are written
// with escapes. Its methods are safe for concurrent use.
//
// The work is proportional to the length of a text. A text in which the patterns match more
// than maxMatches times is replaced as a whole.
type Redactor struct {
	masker   *Masker
	patterns atomic.Pointer[[]*regexp.Regexp]
}

// maxMatches is how many matches of a pattern in a text are kept in memory.
const maxMatches = 20_000

// NewRedactor returns a Redactor for the secrets of m, including those that are added to
// m later, and for patterns.
func NewRedactor(m *Masker, patterns []*regexp.Regexp) *Redactor {
	r := &Redactor{masker: m}
	r.SetPatterns(patterns)
	return r
}

// SetPatterns replaces the patterns.
func (r *Redactor) SetPatterns(patterns []*regexp.Regexp) { r.patterns.Store(&patterns) }

// Text returns s redacted. changed reports whether it differs from s.
func (r *Redactor) Text(s string) (_ string, changed bool) {
	spans := r.find(s, maxEscapeDepth)
	return maskSpans(s, spans), len(spans) > 0
}

// JSON returns raw redacted, or raw itself if there is nothing to redact. Within a string
// or a member's name, only what is found is replaced; a number with a secret becomes a
// string. The patterns are matched against each string and against raw as a whole. If
// such a match extends over several values, each string and number that it touches is
// replaced completely, except names. Bytes that are not valid JSON are redacted as a
// text.
func (r *Redactor) JSON(raw []byte) (_ []byte, changed bool) {
	whole := unsafe.String(unsafe.SliceData(raw), len(raw)) // raw is not changed while it is in use
	spans := r.find(whole, maxEscapeDepth)
	if len(spans) == 0 && len(*r.patterns.Load()) == 0 {
		return raw, false
	}
	if _, err := wire.Elements(slices.Concat([]byte{'['}, raw, []byte{']'})); err != nil {
		text := maskSpans(whole, spans)
		return []byte(text), len(spans) > 0
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	j := jsonRedaction{Redactor: r, raw: whole, spans: spans}
	j.run()
	if !j.changed {
		return raw, false
	}
	return append(j.out, whole[j.done:]...), true
}

// find returns where in s there is something to redact.
func (r *Redactor) find(s string, depth int) []span {
	patterns := *r.patterns.Load()
	if len(patterns) == 0 && r.masker.knowsNone() {
		return nil
	}
	return findEscaped(s, depth, func(s string) []span {
		spans := r.masker.find(s)
		for _, p := range patterns {
			matches := p.FindAllStringIndex(s, maxMatches+1)
			if len(matches) > maxMatches {
				return []span{{0, len(s)}}
			}
			for _, m := range matches {
				if m[0] < m[1] {
					spans = append(spans, span{m[0], m[1]})
				}
			}
		}
		return spans
	})
}
