package cassette

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

var (
	_ compose.Catalog   = (*Cassette)(nil)
	_ compose.Upstreams = (*Cassette)(nil)
)

// Ready implements compose.Upstreams: all servers are always ready.
func (c *Cassette) Ready(context.Context, route.Origin, string) error { return nil }

// CallUpstream implements compose.Upstreams. If no interaction matches, the answer is a
// JSON-RPC error with the text of an *UnmatchedError. If ctx ends during the delay, the
// answer has no meaning.
func (c *Cassette) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	i, unmatched := c.match(call.Server, call.Tool, argumentsOf(call.Params))
	if unmatched != nil {
		return unmatched.reply()
	}
	if i.Delay > 0 {
		timer := time.NewTimer(i.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return wire.Reply{Result: route.ErrorResult("the call ended before its answer: " + context.Cause(ctx).Error())}
		}
	}
	return i.reply()
}

// argumentsOf returns the arguments in the params of a tools/call, {} if there are none.
func argumentsOf(params []byte) []byte {
	args, ok := wire.Get(params, "arguments")
	if !ok || string(args) == "null" {
		return []byte("{}")
	}
	return args
}

// match finds the interaction for a call and counts its use.
func (c *Cassette) match(server, tool string, args []byte) (*Interaction, *UnmatchedError) {
	miss := &UnmatchedError{Server: server, Tool: tool, Params: args}
	c.mu.Lock()
	defer c.mu.Unlock()
	candidates := c.candidates(server, tool)
	for _, n := range candidates {
		if c.usedUp(n) {
			continue
		}
		i := &c.interactions[n]
		differ := i.differences(args)
		if differ == nil {
			c.used[n]++
			return i, nil
		}
		miss.consider(c.label(n), differ)
	}
	for _, n := range candidates {
		if i := &c.interactions[n]; c.usedUp(n) {
			differ := i.differences(args)
			if differ == nil {
				miss.Nearest, miss.Differences, miss.UsedUp = c.label(n), nil, i.Times
				break
			}
			miss.consider(c.label(n), differ)
		}
	}
	if candidates == nil {
		miss.Mocked = c.tools()
	}
	c.unmatched = append(c.unmatched, miss)
	return nil, miss
}

// usedUp reports whether interaction n has been used as often as it may be. The caller
// holds c.mu.
func (c *Cassette) usedUp(n int) bool {
	most := c.interactions[n].Times
	return most > 0 && c.used[n] >= most
}

// candidates returns the interactions that have the real names of a tool. If there are
// none, it returns those that have its script names.
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

// result returns the CallToolResult that raises the error.
func (r *Raise) result() []byte {
	return wire.Marshal(callResult{Content: textBlocks(r.Message), Structured: r.Details, IsError: true})
}

// TextResult returns a CallToolResult with one text block.
func TextResult(text string) []byte { return wire.Marshal(callResult{Content: textBlocks(text)}) }

// callResult is a CallToolResult as we write it.
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

// resultOf returns a CallToolResult that scripts see as the given value. The value is
// its structuredContent, except for null, which structuredContent cannot be, and for
// strings that are not JSON, which servers send as text.
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
