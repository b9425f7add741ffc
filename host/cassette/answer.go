package cassette

import (
	"context"
	"encoding/json"
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

// Ready implements compose.Upstreams: all servers are there.
func (c *Cassette) Ready(context.Context, route.Origin, string) error { return nil }

// CallUpstream implements compose.Upstreams. A call that no interaction is for
// gets a JSON-RPC error with the text of an *UnmatchedError. When ctx ends before
// the delay does, the answer means nothing.
func (c *Cassette) CallUpstream(ctx context.Context, _ route.Origin, server, tool string, params []byte, _ func([]byte)) wire.Reply {
	i, miss := c.take(server, tool, argumentsOf(params))
	if miss != nil {
		return miss.reply()
	}
	if i.Delay > 0 {
		timer := time.NewTimer(i.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return wire.Reply{Result: route.ErrorResult("the call was given up: " + context.Cause(ctx).Error())}
		}
	}
	return i.reply()
}

// argumentsOf are those in the params of a tools/call.
func argumentsOf(params []byte) []byte {
	args, ok := wire.Get(params, "arguments")
	if !ok || string(args) == "null" {
		return []byte("{}")
	}
	return args
}

// take finds the interaction for a call, and counts that it is used.
func (c *Cassette) take(server, tool string, args []byte) (*Interaction, *UnmatchedError) {
	miss := &UnmatchedError{Server: server, Tool: tool, Params: args}
	c.mu.Lock()
	defer c.mu.Unlock()
	candidates := c.candidates(server, tool)
	for _, n := range candidates {
		if c.spent(n) {
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
		if i := &c.interactions[n]; c.spent(n) {
			differ := i.differences(args)
			if differ == nil {
				miss.Nearest, miss.Differences, miss.Spent = c.label(n), nil, i.Times
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

// spent tells whether interaction n was used as often as it may be. c.mu is held.
func (c *Cassette) spent(n int) bool {
	most := c.interactions[n].Times
	return most > 0 && c.used[n] >= most
}

// candidates are the interactions of a tool by its real names. Those that are
// written with script names count only if there are no others.
func (c *Cassette) candidates(server, tool string) []int {
	name := toolName{server, tool}
	if exact := c.byName[name]; exact != nil {
		return exact
	}
	return c.byIdent[name.ident()]
}

// reply is the answer.
func (i *Interaction) reply() wire.Reply {
	switch {
	case i.Result != nil:
		return wire.Reply{Result: i.Result}
	case i.RPCError != nil:
		return wire.Reply{Error: i.RPCError}
	case i.Raises != nil:
		return wire.Reply{Result: i.Raises.result()}
	}
	return wire.Reply{Result: returning(i.Returns)}
}

// result is the CallToolResult that raises an error.
func (r *Raise) result() []byte {
	return wire.Marshal(callResult{Content: textOf(r.Message), Structured: r.Details, IsError: true})
}

// TextResult is the CallToolResult that has only a text.
func TextResult(text string) []byte { return wire.Marshal(callResult{Content: textOf(text)}) }

// callResult is a CallToolResult.
type callResult struct {
	Content    []textBlock     `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textOf(text string) []textBlock { return []textBlock{{"text", text}} }

// returning is a CallToolResult that scripts see as value: its
// structuredContent, except for what that cannot be (null) or what would have to
// be text of a server too.
func returning(value []byte) []byte {
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
	return wire.Marshal(callResult{Content: textOf(text), Structured: value})
}
