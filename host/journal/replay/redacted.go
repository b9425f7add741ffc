package replay

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// matcher compares recorded values with values of a replay. In a redacted record, a masked part
// matches any text.
type matcher struct {
	redacted bool
	excused  *bool // set if a value matched only because of a mask
}

// text reports whether two texts match.
func (m matcher) text(recorded, replayed string) bool {
	return recorded == replayed || m.redacted && m.excuse(matchMasked(recorded, replayed))
}

// json reports whether two raw JSON values match.
func (m matcher) json(recorded, replayed []byte) bool {
	if bytes.Equal(recorded, replayed) {
		return true
	}
	if !m.redacted || !bytes.Contains(recorded, []byte(journal.Masked)) {
		return false
	}
	a, okA := decoded(recorded)
	b, okB := decoded(replayed)
	return okA && okB && m.excuse(matchValue(a, b))
}

// call reports whether two calls match.
func (m matcher) call(recorded, replayed abi.ToolCall) bool {
	return recorded.Exact == replayed.Exact && recorded.Raw == replayed.Raw && recorded.Timeout == replayed.Timeout &&
		m.text(recorded.Server, replayed.Server) && m.text(recorded.Tool, replayed.Tool) &&
		m.json(recorded.Meta, replayed.Meta) && m.json(recorded.Arguments, replayed.Arguments)
}

func (m matcher) excuse(matches bool) bool {
	*m.excused = *m.excused || matches
	return matches
}

// maskedName matches the text of a redactor in place of a name or a part of a name: the second
// masked name in an object has a number, and so on.

var maskedName = regexp.MustCompile(regexp.QuoteMeta(journal.Masked) + "[0-9]*")

// matchMasked reports whether replayed equals recorded, with any text in place of the
// masked parts.
func matchMasked(recorded, replayed string) bool {
	return matchParts(strings.Split(recorded, journal.Masked), replayed)
}

// matchParts reports whether text consists of the parts with any text between them.
func matchParts(parts []string, text string) bool {
	last := len(parts) - 1
	if last == 0 {
		return text == parts[0]
	}
	text, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		if found {
			_, text, found = strings.Cut(text, part)
		}
	}
	return found && strings.HasSuffix(text, parts[last])
}

// matchValue is like matchMasked for decoded JSON. Redacted numbers are strings in the
// record.
func matchValue(recorded, replayed any) bool {
	switch a := recorded.(type) {
	case string:
		switch b := replayed.(type) {
		case string:
			return matchMasked(a, b)
		case json.Number:
			return a == journal.Masked
		}
		return false
	case []any:
		b, ok := replayed.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !matchValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := replayed.(map[string]any)
		return ok && matchMembers(a, b)
	}
	return recorded == replayed
}

// maxMaskedNames limits the members with masked names in an object, since each is compared with all
// remaining members.
const maxMaskedNames = 100

// matchMembers compares objects. A member with a masked name matches any remaining member
// with a matching value.
func matchMembers(recorded, replayed map[string]any) bool {
	if len(recorded) != len(replayed) {
		return false
	}
	var hidden []string // masked recorded names
	left := maps.Clone(replayed)
	for name, value := range recorded {
		other, same := replayed[name]
		switch {
		case same && matchValue(value, other):
			delete(left, name)
		case strings.Contains(name, journal.Masked):
			hidden = append(hidden, name)
		default:
			return false
		}
	}
	if len(hidden) > maxMaskedNames {
		return false
	}
	for _, name := range hidden {
		parts := maskedName.Split(name, -1)
		found := false
		for other, value := range left {
			if found = matchParts(parts, other) && matchValue(recorded[name], value); found {
				delete(left, other)
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// decoded returns a JSON value with numbers as written. The value may be large: replays have the
// process for themselves.
func decoded(raw []byte) (v any, ok bool) {
	t, err := jsonvalue.Options{Room: jsonvalue.Alone}.Decode(raw)
	if err != nil {
		return nil, false
	}
	return t.Value, true
}
