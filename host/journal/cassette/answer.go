package cassette

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
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
