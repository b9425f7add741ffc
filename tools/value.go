package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Limits of JSON values checked against a schema.
const (
	// MaxValueDepth is the nesting depth of objects and arrays.
	MaxValueDepth = 1000
	// MaxNumberDigits is the length of the longest number literal, and the largest accepted power
	// of ten: checking is exact.
	MaxNumberDigits = jsonvalue.MaxNumberDigits
)

// parseValue parses exactly one JSON value into the types of the schema library: nil, bool,
// json.Number, string, []any, map[string]any. Invalid UTF-8 and duplicate names are refused,
// because another parser could get a different value from the same bytes. The meter keeps the
// memory of the value until the value is freed.
func parseValue(m *meter, raw []byte, maxDepth int) (any, error) {
	options := jsonvalue.Options{Depth: maxDepth, Exact: true, Step: m.token}
	if m.room != nil {
		options.Room = m
	}
	if m.unknown != "" {
		options.Text = m.known
	}
	tree, err := options.Decode(raw)
	if err != nil {
		return nil, err
	}
	m.trees = append(m.trees, tree)
	return tree.Value, nil
}

// token counts a token of JSON.
func (m *meter) token(bytes int64) { m.take(tokenCost + byteCost*bytes) }

// known returns a text, unless the text stands for an unknown value.
func (m *meter) known(text string) any {
	if strings.HasPrefix(text, m.unknown) {
		return unknown{}
	}
	return text
}

// lookup follows the tokens of a JSON pointer.
func lookup(v any, tokens []string) (any, bool) {
	for _, tok := range tokens {
		switch c := v.(type) {
		case map[string]any:
			next, ok := c[tok]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// pointer returns tokens as a JSON pointer (RFC 6901).
func pointer(tokens []string) string {
	var p jsontext.Pointer
	for _, tok := range tokens {
		p = p.AppendToken(tok)
	}
	return string(p)
}

// kindOf returns the JSON type of a parsed value, as named in JSON Schema.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// Spend is called with the work done since the last call. A unit is about half a nanosecond, like a
// unit of a script's fuel. An error from Spend stops the work and is returned to the caller. Spend
// is called on the goroutine of the caller, about every 50 microseconds; units can be 0.
//
// The same value and schema always cost the same.
type Spend func(units uint64) error

// FreeWork is the work allowed without a Spend, about a tenth of a second.
const FreeWork = 200_000_000

// WorkError reports a check that needs more work than allowed.
type WorkError struct {
	Units uint64 // the limit
}

func (e *WorkError) Error() string {
	return fmt.Sprintf("checking takes more than %d units of work (simplify the schema, or the value)", e.Units)
}

// AtMost returns a Spend that allows the given number of units. The result is not safe for
// concurrent use.
func AtMost(units uint64) Spend {
	left := units
	return func(n uint64) error {
		if n > left {
			return &WorkError{Units: units}
		}
		left -= n
		return nil
	}
}

// Until is like AtMost, but also stops when ctx ends, with the error of ctx.
func Until(ctx context.Context, units uint64) Spend {
	spend := AtMost(units)
	return func(n uint64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return spend(n)
	}
}

// The cost of steps, in units.
const (
	// workSlice is the work between two calls of Spend.
	workSlice = 1 << 16

	schemaCost = 300 // a schema applied to a value
	nameCost   = 80  // looking up a name
	tokenCost  = 150 // reading a token of JSON
	byteCost   = 2   // each byte of a token
	valueCost  = 100 // hashing or comparing a value
)

// meter counts work. A refusal by Spend makes it panic with interrupted; see run.
type meter struct {
	spend Spend
	due   int64
	polls int
	// room has the memory of the trees; nil: they must be small.
	room  jsonvalue.Room
	trees []*jsonvalue.Tree // not freed yet
	// unknown begins the strings of the checked value that stand for unknown values; "" for none.
	unknown string
}

// interrupted is the panic after refused work. run recovers it.
type interrupted struct{ err error }

// meter returns a meter for checking values against the schema.
func (s *Schema) meter(spend Spend) *meter {
	m := newMeter(spend)
	m.unknown, m.room = s.unknown, s.room
	return m
}

func newMeter(spend Spend) *meter {
	if spend == nil {
		spend = AtMost(FreeWork)
	}
	return &meter{spend: spend}
}

// take counts work and calls Spend when a slice of work is used up.
func (m *meter) take(units int64) {
	if m.due += units; m.due >= workSlice {
		m.spendDue()
	}
}

// poll calls Spend if a call is due, for work counted in advance.
func (m *meter) poll() {
	if m.polls++; m.polls%1024 == 0 {
		m.callSpend()
	}
}

// text counts the work of reading n bytes of text once or twice.
func (m *meter) text(n int) { m.take(int64(n) * byteCost) }

// spendDue passes the remaining work to Spend.
func (m *meter) spendDue() {
	if m.due > 0 {
		m.callSpend()
	}
}

// callSpend calls Spend. A refusal panics.
func (m *meter) callSpend() {
	due := m.due
	m.due = 0
	if err := m.spend(uint64(due)); err != nil {
		panic(interrupted{err})
	}
}

// Take implements jsonvalue.Room. A room without memory stops the work.
func (m *meter) Take(bytes int64) error {
	if err := m.room.Take(bytes); err != nil {
		panic(interrupted{err})
	}
	return nil
}

// Give implements jsonvalue.Room.
func (m *meter) Give(bytes int64) { m.room.Give(bytes) }

// free frees the parsed trees, except the first ones.
func (m *meter) free(except int) {
	for _, t := range m.trees[except:] {
		t.Free()
	}
	m.trees = m.trees[:except]
}

// run does some work, and then frees the trees parsed for the work. The error is from Spend or the
// room, if either refused more.
func (m *meter) run(work func()) (err error) {
	defer m.free(0)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interrupted:
			err = r.err
		default:
			panic(r)
		}
	}()
	work()
	m.spendDue()
	return nil
}
