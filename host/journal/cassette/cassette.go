// Package cassette answers tool calls without the tools. The answers are invented (mocks) or
// recorded, and are found by server, tool and params. A Cassette replaces the catalog and the
// upstreams of a compose.Composer: a script runs normally but offline. Begin with Interaction and
// Cassette; Read and Write handle files, Recorder records calls.
//
// A file *.cassette.toml has an [[interaction]] table for each answer, with the keys in Keys. TOML
// has no null, no integers beyond 64 bits and no order of keys. So each value can be given as JSON
// text instead, under the key with the suffix _json. Files are written in this lossless form.
package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Match is the way of comparing the params of a call with the params of an Interaction.
type Match string

// The values of Match. Numbers are compared by value, and the order of members does not
// matter.
const (
	Exact  Match = "exact"  // they must be equal
	Subset Match = "subset" // objects of the call may have more members
)

// Interaction is the answer to some calls of a tool. Exactly one of Returns, Result,
// Raises, RPCError and Denied is set.
type Interaction struct {
	// Server and Tool are the real names, or unambiguous script names.
	Server, Tool string
	// Params is the raw JSON object to compare with the arguments of a call; nil: any arguments
	// match.
	Params []byte
	// Match says how they are compared; "" is Exact.
	Match Match

	// Returns is the raw JSON value for the script.
	Returns []byte
	// Result is a raw CallToolResult.
	Result []byte
	// Raises is an error of the tool.
	Raises *Raise
	// RPCError is a raw JSON-RPC error object.
	RPCError []byte
	// Denied is the reason for refusing the call, as if a person had not approved the call. Scripts
	// cannot catch this error.
	Denied string

	// Delay is the time before the answer is returned.
	Delay time.Duration
	// Times is how often the interaction can be used; 0: any number of times.
	Times int
	// From is the place of the definition, for messages: "x.cassette.toml:12".
	From string
}

// Raise is an isError result, which a script receives as a ToolError. The class is always
// abi.ErrTool, since the other classes are set by the host.
type Raise struct {
	Message string
	// Details is the raw JSON value of the error's details: the result's structuredContent. Nil
	// means the result's content.
	Details []byte
}

// Check returns an error if an interaction is invalid.
func (i Interaction) Check() error {
	kinds := 0
	for _, set := range []bool{i.Returns != nil, i.Result != nil, i.Raises != nil, i.RPCError != nil, i.Denied != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case i.Server == "" || i.Tool == "":
		return &FieldError{Key: "tool", Text: `is missing (tool = "server.tool")`}
	case i.Server == abi.Composites:
		return &FieldError{Key: "tool", Text: "is a saved tool; saved tools really run, so mock the tools that they call"}
	case i.Params != nil && !wire.IsObject(i.Params):
		return &FieldError{Key: "params", Text: "is not a JSON object"}
	case i.Match != "" && i.Match != Exact && i.Match != Subset:
		return &FieldError{Key: "match", Text: fmt.Sprintf(`is %q, want "exact" or "subset"`, i.Match)}
	case i.Returns != nil && !json.Valid(i.Returns):
		return &FieldError{Key: "returns", Text: "is not a JSON value"}
	case i.Result != nil && !wire.IsObject(i.Result):
		return &FieldError{Key: "result", Text: "is not a JSON object"}
	case i.Raises != nil && i.Raises.Details != nil && !json.Valid(i.Raises.Details):
		return &FieldError{Key: "raises", Text: "has details that are not a JSON value"}
	case i.RPCError != nil && !wire.IsObject(i.RPCError):
		return &FieldError{Key: "error", Text: "is not a JSON object"}
	case i.Delay < 0:
		return &FieldError{Key: "delay", Text: "is below zero"}
	case i.Times < 0:
		return &FieldError{Key: "times", Text: "is below zero"}
	case kinds == 0:
		return &FieldError{Key: "", Text: "has no answer (give it one of returns, text, result, raises, error and denied)"}
	case kinds > 1:
		return &FieldError{Key: "", Text: "has more than one answer (one of returns, text, result, raises, error and denied)"}
	}
	return nil
}

// FieldError is an error in a key of an interaction, or in the whole interaction if Key is "".
type FieldError struct {
	Key, Text string
	offset    int // position of the error in JSON text, in bytes from 1; 0: unknown
}

func (e *FieldError) Error() string {
	if e.Key == "" {
		return e.Text
	}
	return e.Key + " " + e.Text
}

// name returns the name of the tool for messages.
func (i *Interaction) name() string { return i.Server + "." + i.Tool }

// Cassette answers calls. A Cassette is safe for concurrent use. It counts uses of the interactions
// over its lifetime, so each run has a separate Cassette.
type Cassette struct {
	interactions []Interaction
	// The indexes of the interactions for a tool, by real names and by script names.
	byName, byIdent map[toolName][]int
	tools           map[string][]toolName // by the script names of their servers, each once
	servers, names  []string              // the script names of servers, and the names of tools, in order
	replies         []func() wire.Reply   // of the interactions, each made once

	mu        sync.Mutex // guards the fields below
	used      []int      // by index of interactions
	unmatched []*UnmatchedError
}

// New returns a Cassette. A call is answered by the first matching interaction that is not used up.
// New keeps the byte slices, which must not be changed. The error combines the errors of
// Interaction.Check, with the number and place of each interaction.
func New(interactions ...Interaction) (*Cassette, error) {
	c := &Cassette{
		interactions: slices.Clone(interactions), used: make([]int, len(interactions)),
		byName: map[toolName][]int{}, byIdent: map[toolName][]int{}, tools: map[string][]toolName{},
		replies: make([]func() wire.Reply, len(interactions)),
	}
	var errs []error
	for n := range c.interactions {
		i := &c.interactions[n]
		if err := i.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.label(n), err))
		}
		c.replies[n] = sync.OnceValue(i.reply)
		name := toolName{i.Server, i.Tool}
		if c.byName[name] == nil {
			server := abi.Ident(i.Server)
			if c.tools[server] == nil {
				c.servers = append(c.servers, server)
			}
			c.tools[server] = append(c.tools[server], name)
			c.names = append(c.names, i.name())
		}
		c.byName[name] = append(c.byName[name], n)
		c.byIdent[name.ident()] = append(c.byIdent[name.ident()], n)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// toolName is the name of a tool with the name of the server.
type toolName struct{ server, tool string }

// ident returns the script names.
func (n toolName) ident() toolName { return toolName{abi.Ident(n.server), abi.Ident(n.tool)} }

// label returns a name for interaction n, for messages.
func (c *Cassette) label(n int) string {
	i := &c.interactions[n]
	if i.From != "" {
		return i.From
	}
	return fmt.Sprintf("mock %d (%s)", n+1, i.name())
}

// Interactions returns all interactions, in order.
func (c *Cassette) Interactions() []Interaction { return slices.Clone(c.interactions) }

// Unused returns the unused interactions, in order.
func (c *Cassette) Unused() []Interaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	var unused []Interaction
	for n, times := range c.used {
		if times == 0 {
			unused = append(unused, c.interactions[n])
		}
	}
	return unused
}

// Unmatched returns the unanswered calls, in order. A script can catch the error of an unanswered
// call, so a test has to check Unmatched too.
func (c *Cassette) Unmatched() []*UnmatchedError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unmatched)
}

// list formats names for a message, at most a dozen of them.
func list(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compact removes white space between the tokens of valid JSON.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil { // raw is nested too deeply for the library
		return raw
	}
	return b.Bytes()
}
