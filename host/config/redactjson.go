package config

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// jsonRedaction is the state of jsonRedaction one valid JSON text.
type jsonRedaction struct {
	*Redactor
	raw     string
	spans   []span // what was found in raw as a whole, by their beginning
	next    int    // the first of spans that overlapping has not seen
	reach   int    // where the last of those before it ends
	out     []byte
	done    int // how many bytes of raw have been processed into out
	changed bool
	names   int // how many member names were replaced
}

// run redacts all strings and numbers.
func (j *jsonRedaction) run() {
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
			if within, partly := j.overlapping(i, end); within || partly || len(j.find(j.raw[i:end], 0)) > 0 {
				j.replace(i, end, wire.Quote(mask))
			}
			i = end
		default:
			i++
		}
	}
}

// stringEnd returns where the string that begins at i ends.
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

// text redacts the string from one offset to another.
func (j *jsonRedaction) text(from, to int) {
	name := isName(j.raw, to)
	content, _ := wire.Text([]byte(j.raw[from:to]))
	within, partly := j.overlapping(from+1, to-1)
	spans := j.find(content, maxEscapeDepth)
	switch {
	case partly && !name, within && len(spans) == 0: // replace all of it, to be sure
		content, spans = mask, nil
	case len(spans) == 0:
		return
	}
	masked := maskSpans(content, spans)
	if name {
		masked = j.uniqueName(masked)
	}
	j.replace(from, to, wire.Quote(masked))
}

// overlapping reports whether something was found within a part of raw, and whether
// something was found that is only partly in it. It must be called for the parts in order,
// and looks at each of spans once.
func (j *jsonRedaction) overlapping(from, to int) (within, partly bool) {
	for ; j.next < len(j.spans) && j.spans[j.next].from < from; j.next++ {
		j.reach = max(j.reach, j.spans[j.next].to)
	}
	partly = j.reach > from
	for ; j.next < len(j.spans) && j.spans[j.next].from < to; j.next++ {
		end := j.spans[j.next].to
		within, partly = within || end <= to, partly || end > to
		j.reach = max(j.reach, end)
	}
	return within, partly
}

// uniqueName makes a replaced name differ from earlier ones, because the names in an object
// must be unique.
func (j *jsonRedaction) uniqueName(name string) string {
	if j.names++; j.names > 1 {
		name += strconv.Itoa(j.names)
	}
	return name
}

// isName reports whether the string that ends at end is the name of a member.
func isName(raw string, end int) bool {
	rest := strings.TrimLeft(raw[end:min(len(raw), end+64)], " \t\r\n")
	return strings.HasPrefix(rest, ":")
}

func (j *jsonRedaction) replace(from, to int, with []byte) {
	j.out = append(append(j.out, j.raw[j.done:from]...), with...)
	j.done, j.changed = to, true
}
