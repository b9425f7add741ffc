package config

import "strings"

// finder finds many forms in a text. A nil finder finds nothing.
type finder struct {
	forms []string
	// pairs has a bit for each two bytes that a form begins with; byPair has the forms by
	// these two bytes. Both are nil if there are few forms.
	pairs  *[1 << 16 / 64]uint64
	byPair map[uint16][]string
}

// maxLinearForms is the number of forms up to which it is faster to search for each one
// separately.
const maxLinearForms = 4

// newFinder returns a finder for forms of at least MinSecret bytes.
func newFinder(forms []string) *finder {
	f := &finder{forms: forms}
	if len(forms) <= maxLinearForms {
		return f
	}
	f.pairs, f.byPair = new([1 << 16 / 64]uint64), map[uint16][]string{}
	for _, form := range forms {
		p := pair(form, 0)
		f.pairs[p/64] |= 1 << (p % 64)
		f.byPair[p] = append(f.byPair[p], form)
	}
	return f
}

// empty reports whether there is nothing to find.
func (f *finder) empty() bool { return f == nil || len(f.forms) == 0 }

func pair(s string, at int) uint16 { return uint16(s[at]) | uint16(s[at+1])<<8 }

// extend adds a span, or extends the last one if the two overlap or touch: in a text that
// repeats a secret, there are as many occurrences as characters.
func extend(spans []span, s span) []span {
	if last := len(spans) - 1; last >= 0 && spans[last].from <= s.from && s.from <= spans[last].to {
		spans[last].to = max(spans[last].to, s.to)
		return spans
	}
	return append(spans, s)
}

// find returns where the forms are in s. Occurrences that overlap or touch can be one span.
func (f *finder) find(s string) []span {
	if f == nil {
		return nil
	}
	var spans []span
	if f.pairs == nil {
		for _, form := range f.forms {
			for from := 0; ; {
				at := strings.Index(s[from:], form)
				if at < 0 {
					break
				}
				from += at
				spans = extend(spans, span{from, from + len(form)})
				from++
			}
		}
		return spans
	}
	for i := 0; i+MinSecret <= len(s); i++ {
		p := pair(s, i)
		if f.pairs[p/64]&(1<<(p%64)) == 0 {
			continue
		}
		for _, form := range f.byPair[p] {
			if strings.HasPrefix(s[i:], form) {
				spans = extend(spans, span{i, i + len(form)})
			}
		}
	}
	return spans
}
