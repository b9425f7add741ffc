package config

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// redacting is one valid JSON text on its way through a Redactor.
type redacting struct {
	*Redactor
	raw     string
	spans   []span // in the whole of it
	out     []byte
	done    int // how much of raw is in out
	changed bool
	names   int // that were replaced
}

// run goes through the strings and numbers.
func (j *redacting) run() {
	for i := 0; i < len(j.raw); {
		switch c := j.raw[i]; {
		case c == '"':
			end := stringEnd(j.raw, i)
			j.text(i, end)
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(j.raw) && strings.IndexByte("+-.eE0123456789", j.raw[end]) >= 0 {
				end++
			}
			if within, across := j.touching(i, end); within || across || len(j.find(j.raw[i:end], 0)) > 0 {
				j.replace(i, end, wire.Quote(mask))
			}
			i = end
		default:
			i++
		}
	}
}

// stringEnd is where the string that begins at i ends.
func stringEnd(raw string, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// text redacts a string.
func (j *redacting) text(from, to int) {
	name := isName(j.raw, to)
	content, _ := wire.Text([]byte(j.raw[from:to]))
	within, across := j.touching(from+1, to-1)
	spans := j.find(content, maxViews)
	switch {
	case across && !name, within && len(spans) == 0: // all of it, to be sure
		content, spans = mask, nil
	case len(spans) == 0:
		return
	}
	masked := maskSpans(content, spans)
	if name {
		masked = j.distinct(masked)
	}
	j.replace(from, to, wire.Quote(masked))
}

// touching reports whether something was found in that part of the text, and
// whether something that is there only in part.
func (j *redacting) touching(from, to int) (within, across bool) {
	for _, s := range j.spans {
		switch {
		case s.from >= from && s.to <= to:
			within = true
		case s.from < to && s.to > from:
			across = true
		}
	}
	return within, across
}

// distinct makes a name differ from others that were replaced: an object must
// not have two of the same.
func (j *redacting) distinct(name string) string {
	if j.names++; j.names > 1 {
		name += strconv.Itoa(j.names)
	}
	return name
}

// isName reports whether the string that ends there is the name of a member.
func isName(raw string, end int) bool {
	rest := strings.TrimLeft(raw[end:min(len(raw), end+64)], " \t\r\n")
	return strings.HasPrefix(rest, ":")
}

func (j *redacting) replace(from, to int, with []byte) {
	j.out = append(append(j.out, j.raw[j.done:from]...), with...)
	j.done, j.changed = to, true
}
