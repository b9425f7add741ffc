package config

import "strings"

// cutMark follows a text that display.Clip has shortened.
const cutMark = "…"

// minCut is the length in bytes of the shortest beginning of a secret that counts as one
// before a cut. Shorter ones are in many texts by chance.
const minCut = 4

// MaskCut is Mask for a text with pieces that were shortened before. It also replaces the
// beginning of a secret that stands before "…".
func (m *Masker) MaskCut(s string) string {
	s = m.Mask(s)
	if m.knowsNone() || !strings.Contains(s, cutMark) {
		return s
	}
	finders := []*finder{m.secrets.Load()}
	if m.fetched != nil {
		finders = append(finders, m.fetched.finder.Load())
	}
	var spans []span
	for at := 0; ; at += len(cutMark) {
		next := strings.Index(s[at:], cutMark)
		if next < 0 {
			return maskSpans(s, spans)
		}
		at += next
		longest := 0
		for _, f := range finders {
			longest = max(longest, f.beginning(s[:at]))
		}
		if longest > 0 {
			spans = append(spans, span{at - longest, at})
		}
	}
}

// beginning returns the length of the longest beginning of a form, but not all of it, that s
// ends with; 0 if there is none of minCut bytes.
func (f *finder) beginning(s string) int {
	if f.empty() {
		return 0
	}
	longest := 0
	for _, form := range f.forms {
		for n := min(len(form)-1, len(s)); n >= max(minCut, longest+1); n-- {
			if strings.HasSuffix(s, form[:n]) {
				longest = n
			}
		}
	}
	return longest
}
