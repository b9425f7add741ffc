package smoke

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// pointer is a JSON pointer (RFC 6901) to members of a value, as its steps.
type pointer []string

// anyStep is the step for every member or item, in a pointer to replaced values.
const anyStep = "*"

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is not a JSON pointer (it begins with a slash: \"/structuredContent/time\")", text)
	}
	steps := strings.Split(text[1:], "/")
	for i, s := range steps {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~") {
			return nil, fmt.Errorf("%q is not a JSON pointer (~ is written ~0, and / in a name is ~1)", text)
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps, nil
}

// String returns the pointer as written.
func (p pointer) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}

// find returns the target of the pointer in raw JSON. Without a target, at is the index of the
// first step that leads nowhere.
func (p pointer) find(raw json.RawMessage) (found json.RawMessage, at int, ok bool) {
	for at, step := range p {
		if items, err := wire.Elements(raw); err == nil {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(items) || strconv.Itoa(i) != step {
				return nil, at, false
			}
			raw = items[i]
		} else if raw, ok = wire.Get(raw, step); !ok {
			return nil, at, false
		}
	}
	return raw, len(p), true
}

// replace replaces the targets of the pointer in a value of jsonvalue.Decode. v is changed, and
// returned.
func (p pointer) replace(v, with any) any {
	if len(p) == 0 {
		return with
	}
	step, rest := p[0], p[1:]
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			if step == anyStep || step == name {
				v[name] = rest.replace(sub, with)
			}
		}
	case []any:
		for i, sub := range v {
			if step == anyStep || step == strconv.Itoa(i) {
				v[i] = rest.replace(sub, with)
			}
		}
	}
	return v
}
