package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

var (
	_ compose.Catalog   = (*Cassette)(nil)
	_ compose.Upstreams = (*Cassette)(nil)
)

// Ready implements compose.Upstreams: all servers are always ready.
func (c *Cassette) Ready(context.Context, route.Origin, string) error { return nil }

// CallUpstream implements compose.Upstreams. If no interaction matches, the answer is a JSON-RPC
// error with the text of an *UnmatchedError. If ctx ends before the answer, or if call.Compute
// refuses the work of the search, the answer has no meaning.
func (c *Cassette) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	var n int
	var unmatched *UnmatchedError
	match := func(spend tools.Spend) (err error) {
		n, unmatched, err = c.match(ctx, call.Server, call.Tool, argumentsOf(call.Params), spend)
		return err
	}
	var err error
	if call.Compute != nil {
		err = call.Compute(match)
	} else {
		err = match(nil)
	}
	switch {
	case err != nil:
		return ended(err)
	case unmatched != nil:
		return unmatched.reply()
	}
	if delay := c.interactions[n].Delay; delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ended(context.Cause(ctx))
		}
	}
	return c.replies[n]()
}

func ended(err error) wire.Reply {
	return wire.Reply{Result: route.ErrorResult("the call ended before its answer: " + err.Error())}
}

// argumentsOf returns the arguments in the params of a tools/call, {} if absent.
func argumentsOf(params []byte) []byte {
	args, ok := wire.Get(params, "arguments")
	if !ok || string(args) == "null" {
		return []byte("{}")
	}
	return args
}

// match finds the interaction for a call, by index, and counts a use of the interaction. The error
// is the reason of an incomplete search.
func (c *Cassette) match(ctx context.Context, server, tool string, args []byte, spend tools.Spend) (int, *UnmatchedError, error) {
	w := &comparing{ctx: ctx, spend: spend}
	var err error
	if w.args, err = w.decode(args); err != nil {
		return 0, nil, err
	}
	nearest, fewest := -1, 0
	candidates := c.candidates(server, tool)
	for _, usedUp := range []bool{false, true} {
		for _, n := range candidates {
			if c.usedUp(n) != usedUp {
				continue
			}
			i := &c.interactions[n]
			differing, err := w.differing(i)
			if err != nil {
				return 0, nil, err
			}
			if differing == 0 && c.use(n) {
				return n, nil, nil
			}
			if nearest < 0 || differing < fewest {
				nearest, fewest = n, differing
			}
			if usedUp && fewest == 0 {
				break
			}
		}
	}
	miss := &UnmatchedError{Server: server, Tool: tool}
	if len(args) <= maxParams {
		miss.Params = args
	}
	switch {
	case nearest < 0:
		miss.Mocked = c.names
	case fewest == 0:
		miss.Nearest, miss.UsedUp = c.label(nearest), c.interactions[nearest].Times
	default:
		miss.Nearest = c.label(nearest)
		if miss.Differences, err = w.describe(&c.interactions[nearest]); err != nil {
			return 0, nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unmatched = append(c.unmatched, miss)
	return 0, miss, nil
}

// usedUp reports whether interaction n has no uses left.
func (c *Cassette) usedUp(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.interactions[n].Times
	return most > 0 && c.used[n] >= most
}

// use counts a use of interaction n. It returns false for a used up interaction.
func (c *Cassette) use(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := c.interactions[n].Times; most > 0 && c.used[n] >= most {
		return false
	}
	c.used[n]++
	return true
}

// candidates returns the interactions with the real names of a tool, or else with the script names.
func (c *Cassette) candidates(server, tool string) []int {
	name := toolName{server, tool}
	if exact := c.byName[name]; exact != nil {
		return exact
	}
	return c.byIdent[name.ident()]
}

// reply returns the answer of the interaction.
func (i *Interaction) reply() wire.Reply {
	switch {
	case i.Result != nil:
		return wire.Reply{Result: i.Result}
	case i.RPCError != nil:
		return wire.Reply{Error: i.RPCError}
	case i.Denied != "":
		err := fmt.Errorf("the call was not approved: denied by a mock: %s", i.Denied)
		return wire.Reply{Result: route.ErrorResult(err.Error()), Denied: err}
	case i.Raises != nil:
		return wire.Reply{Result: i.Raises.result()}
	}
	return wire.Reply{Result: resultOf(i.Returns)}
}

// result returns the CallToolResult for the raised error.
func (r *Raise) result() []byte {
	return wire.Marshal(callResult{Content: textBlocks(r.Message), Structured: r.Details, IsError: true})
}

// TextResult returns a CallToolResult with a single text block.
func TextResult(text string) []byte { return wire.Marshal(callResult{Content: textBlocks(text)}) }

// callResult is a CallToolResult in the form of this package.
type callResult struct {
	Content    []textBlock     `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textBlocks(text string) []textBlock { return []textBlock{{"text", text}} }

// resultOf returns a CallToolResult that scripts see as the given value. The value is in
// structuredContent, except for null, which structuredContent forbids, and for strings other than
// JSON, which servers send as text.
func resultOf(value []byte) []byte {
	value = compact(value)
	text := string(value)
	if s, ok := wire.Text(value); ok {
		if text = s; !json.Valid([]byte(strings.Trim(s, " \t\r\n"))) {
			return TextResult(s)
		}
	}
	if text == "null" && value[0] == 'n' {
		return TextResult(text)
	}
	return wire.Marshal(callResult{Content: textBlocks(text), Structured: value})
}

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

// UnmatchedError is the error of a call without a matching interaction, with the nearest
// interaction.
type UnmatchedError struct {
	Server, Tool string // real names
	Params       []byte // raw JSON object; nil if large
	// Nearest is the interaction with the fewest differences, "" if the tool has no interactions.
	// Mocked then has the tools with interactions.
	Nearest string
	Mocked  []string
	// Differences are the differences in params, by member: the value of the interaction and the
	// value of the call.
	Differences []string
	// UsedUp is the number of uses of Nearest, if Nearest matches but has no uses left; otherwise
	// 0.
	UsedUp int
}

func (e *UnmatchedError) Error() string {
	name := e.Server + "." + e.Tool
	switch {
	case e.Nearest == "" && len(e.Mocked) == 0:
		return fmt.Sprintf("no mock answers %s: there are no mocks", name)
	case e.Nearest == "":
		return fmt.Sprintf("no mock answers %s: there are mocks of %s", name, list(e.Mocked))
	case e.UsedUp == 1:
		return fmt.Sprintf("no mock answers this call of %s: %s does, but only once, and it was used already", name, e.Nearest)
	case e.UsedUp > 1:
		return fmt.Sprintf("no mock answers this call of %s: %s does, but only %d times, and it was used that often already", name, e.Nearest, e.UsedUp)
	}
	return fmt.Sprintf("no mock answers this call of %s; the nearest is %s: %s", name, e.Nearest, strings.Join(e.Differences, "; "))
}

// reply returns a JSON-RPC error. Unlike an isError result, a JSON-RPC error is an error even for
// scripts with raw results.
func (e *UnmatchedError) reply() wire.Reply {
	return wire.Reply{Error: (&wire.RPCError{Code: wire.CodeInvalidParams, Message: e.Error()}).Raw()}
}

// maxParams is the size of the largest params kept by an UnmatchedError, in bytes.
const maxParams = 64 << 10

// maxDifferences is how many differences a message lists.
const maxDifferences = 8

// object has the raw values of a JSON object. Of several members with the same name, the last
// counts.
type object struct {
	names  []string
	values map[string][]byte
}

func members(raw []byte) object {
	o := object{values: map[string][]byte{}}
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return o
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return o
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return o
		}
		if _, again := o.values[name]; !again {
			o.names = append(o.names, name)
		}
		o.values[name] = slices.Clone(value)
	}
	return o
}

// excerpt returns the beginning of a JSON value.
func excerpt(raw []byte) string {
	const most = 80
	text := string(compact(raw))
	at := 0
	for i := range text {
		if at++; at > most {
			return text[:i] + "…"
		}
	}
	return text
}
