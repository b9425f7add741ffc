package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Calls and mocks are untrusted, and both can be as large as a message. So the compared values are
// decoded once for a call, are not decoded beyond a number of values, and cost fuel.
const (
	maxValues    = 100_000 // values decoded from a JSON text
	maxNumber    = 1000    // length of a decoded number, in bytes
	decodeWork   = 50      // fuel for decoding a byte
	compareWork  = 100     // fuel for comparing a value
	describeWork = 200     // fuel for each byte of arguments with described differences
)

// comparing is the work of finding the answer to a call.
type comparing struct {
	ctx   context.Context
	spend tools.Spend // nil: no cost
	args  *decoded
}

// decoded is a JSON object.
type decoded struct {
	raw     []byte
	members map[string]any // as jsonvalue.Decode returns them; nil if they are not decoded
	compact []byte         // raw without white space; nil before the first use
}

// text returns the object without white space.
func (d *decoded) text() []byte {
	if d.compact == nil {
		d.compact = compact(d.raw)
	}
	return d.compact
}

// work is called before a piece of work. The error is the reason to refuse the work.
func (c *comparing) work(units int) error {
	if err := context.Cause(c.ctx); err != nil || c.spend == nil {
		return err
	}
	return c.spend(uint64(units))
}

// decode decodes an object, within the bounds.
func (c *comparing) decode(raw []byte) (*decoded, error) {
	d := &decoded{raw: raw}
	if err := c.work(len(raw) * 2); err != nil || !fewValues(raw) {
		return d, err
	}
	if err := c.work(len(raw) * decodeWork); err != nil {
		return d, err
	}
	if value, err := jsonvalue.Decode(raw); err == nil {
		d.members, _ = value.(map[string]any)
	}
	return d, nil
}

// fewValues reports whether valid JSON has few enough values to be decoded.
func fewValues(raw []byte) bool {
	values := 1
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == ',' || c == '{' || c == '[':
			if values++; values > maxValues {
				return false
			}
		case c == '-' || '0' <= c && c <= '9':
			from := i
			for i++; i < len(raw) && strings.IndexByte("0123456789.eE+-", raw[i]) >= 0; i++ {
			}
			if i -= 1; i-from > maxNumber {
				return false
			}
		}
	}
	return true
}

// differing returns the number of members of the arguments that differ from an interaction, at most
// one more than a message lists.
func (c *comparing) differing(i *Interaction) (n int, err error) {
	if i.Params == nil || bytes.Equal(i.Params, c.args.raw) {
		return 0, nil
	}
	want, err := c.decode(i.Params)
	switch {
	case err != nil:
		return 0, err
	case want.members == nil || c.args.members == nil:
		if bytes.Equal(want.text(), c.args.text()) {
			return 0, nil
		}
		return 1, nil
	}
	present := 0
	for name, w := range want.members {
		g, ok := c.args.members[name]
		same := false
		if ok {
			present++
			if same, err = c.same(w, g, i.Match == Subset); err != nil {
				return 0, err
			}
		}
		if !same {
			n++
		}
	}
	if i.Match != Subset {
		n += len(c.args.members) - present
	}
	return min(n, maxDifferences+1), nil
}

// same compares two values, and reads no more of them than the size of want.
func (c *comparing) same(want, got any, subset bool) (same bool, err error) {
	if err := c.work(compareWork); err != nil {
		return false, err
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || !subset && len(w) != len(g) {
			return false, nil
		}
		for name, value := range w {
			other, ok := g[name]
			if !ok {
				return false, nil
			}
			if same, err = c.same(value, other, subset); !same {
				return false, err
			}
		}
		return true, nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return false, nil
		}
		for n := range w {
			if same, err = c.same(w[n], g[n], subset); !same {
				return false, err
			}
		}
		return true, nil
	case json.Number:
		return len(expect.Differences(want, got, subset)) == 0, nil
	}
	switch got.(type) {
	case map[string]any, []any:
		return false, nil
	}
	return want == got, nil
}

// describe returns the differences between the arguments and an interaction, by member.
func (c *comparing) describe(i *Interaction) ([]string, error) {
	if err := c.work(len(c.args.raw) * describeWork); err != nil {
		return nil, err
	}
	decodedWant, err := c.decode(i.Params)
	if err != nil {
		return nil, err
	}
	if decodedWant.members == nil || c.args.members == nil {
		return []string{fmt.Sprintf("params: of more than %d values, or with a number of more than %d digits, only the same text matches", maxValues, maxNumber)}, nil
	}
	var differ []string
	more := 0
	add := func(text func() string) {
		if len(differ) < maxDifferences {
			differ = append(differ, text())
		} else {
			more++
		}
	}
	want, got := members(i.Params), members(c.args.raw)
	for _, name := range want.names {
		g, ok := c.args.members[name]
		w := decodedWant.members[name]
		if !ok {
			add(func() string { return fmt.Sprintf("params.%s is missing (want %s)", name, excerpt(want.values[name])) })
			continue
		}
		same, err := c.same(w, g, i.Match == Subset)
		if err != nil {
			return nil, err
		}
		if !same {
			add(func() string {
				first := expect.Differences(w, g, i.Match == Subset)[0]
				return fmt.Sprintf("params.%s%s: want %s, got %s", name, strings.TrimPrefix(first.Path(), "$"),
					side(want.values[name], first.Kind != expect.Unexpected, first.Want), side(got.values[name], first.Kind != expect.Missing, first.Got))
			})
		}
	}
	for _, name := range got.names {
		if _, ok := want.values[name]; !ok && i.Match != Subset {
			add(func() string {
				return fmt.Sprintf("params.%s is not expected (got %s)", name, excerpt(got.values[name]))
			})
		}
	}
	if more > 0 {
		differ = append(differ, fmt.Sprintf("and %d more", more))
	}
	return differ, nil
}

// side returns a side of a difference: the differing part, or else the whole value.
func side(whole []byte, has bool, part any) string {
	if !has {
		return excerpt(whole)
	}
	return expect.Show(part)
}
