package config

import (
	"regexp"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Redactor replaces secrets by ****, as a Masker does, and what patterns match,
// in texts and in JSON that stay what they are: for records that are kept. It sees
// through escapes as a Masker does. Its methods are safe for concurrent use.
type Redactor struct {
	masker   *Masker
	patterns atomic.Pointer[[]*regexp.Regexp]
}

// NewRedactor makes a Redactor of the secrets that m knows, also of those that it
// gets to know later.
func NewRedactor(m *Masker, patterns []*regexp.Regexp) *Redactor {
	r := &Redactor{masker: m}
	r.SetPatterns(patterns)
	return r
}

// SetPatterns replaces the patterns.
func (r *Redactor) SetPatterns(patterns []*regexp.Regexp) { r.patterns.Store(&patterns) }

// Text is s without what must not be in it; changed reports whether there was any.
func (r *Redactor) Text(s string) (_ string, changed bool) {
	spans := r.find(s, maxViews)
	return maskSpans(s, spans), len(spans) > 0
}

// JSON is raw without what must not be in it: raw itself if nothing is. Strings,
// names of members among them, keep what is around it. A number becomes a string.
// Patterns are matched with each string and with the whole of raw; of a match in
// the latter that is not within one string, all strings and numbers are replaced
// that it touches, save names. What is no valid JSON is a text.
func (r *Redactor) JSON(raw []byte) (_ []byte, changed bool) {
	whole := unsafe.String(unsafe.SliceData(raw), len(raw)) // nobody changes raw
	spans := r.find(whole, maxViews)
	if len(spans) == 0 && len(*r.patterns.Load()) == 0 {
		return raw, false
	}
	if _, err := wire.Elements(slices.Concat([]byte{'['}, raw, []byte{']'})); err != nil {
		text := maskSpans(whole, spans)
		return []byte(text), len(spans) > 0
	}
	j := redacting{Redactor: r, raw: whole, spans: spans}
	j.run()
	if !j.changed {
		return raw, false
	}
	return append(j.out, whole[j.done:]...), true
}

// find is where in s is what must not be there.
func (r *Redactor) find(s string, views int) []span {
	patterns := *r.patterns.Load()
	if len(patterns) == 0 && r.masker.knowsNone() {
		return nil
	}
	return seeThrough(s, views, func(s string) []span {
		spans := r.masker.find(s)
		for _, p := range patterns {
			for _, m := range p.FindAllStringIndex(s, -1) {
				if m[0] < m[1] {
					spans = append(spans, span{m[0], m[1]})
				}
			}
		}
		return spans
	})
}
