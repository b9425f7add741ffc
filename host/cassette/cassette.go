// Package cassette has answers of tools without the tools: invented ones (mocks)
// and recorded ones, by server, tool and params. A Cassette stands in for the
// catalog and the upstreams of a compose.Composer, so that a script runs as it
// always does, but offline.
//
//	cassette.go  Interaction, Cassette
//	catalog.go   compose.Catalog: which tools scripts find
//	answer.go    compose.Upstreams: which answer a call gets
//	unmatched.go UnmatchedError: why a call gets none
//	mock.go      an Interaction out of decoded TOML values
//	read.go      the file format, read; places.go: where things stand in it
//	write.go     the file format, written
//	redact.go    JSON without secrets
//	recorder.go  Recorder: what passes an Upstreams becomes a Cassette
//
// A file *.cassette.toml has one [[interaction]] for each answer:
//
//	times = 1                  # how often each may be used; without: any number
//
//	[[interaction]]
//	tool = "github.search_issues"
//	params_json = '{"query": "is:open"}'
//	result_json = '''
//	{
//	  "structuredContent": {"total": 3}
//	}
//	'''
//
// TOML has no null, no integers beyond 64 bits and no order of keys. So whatever
// takes a value can be given as JSON text instead, under the key that ends in
// _json; that is what is written, since it loses nothing.
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
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Match says how the params of a call are held against those of an Interaction.
type Match string

// The ways. Numbers are the same that have the same value, and the order of
// members does not count.
const (
	Exact  Match = "exact"  // they are the same
	Subset Match = "subset" // objects of the call may have more members
)

// Interaction is the answer to some calls of a tool. Of Returns, Result, Raises
// and RPCError exactly one is set.
type Interaction struct {
	// Server and Tool are the real names; script names will do where they are
	// those of one tool only.
	Server, Tool string
	// Params is the raw JSON object that the arguments of a call are held
	// against; nil: any will do.
	Params []byte
	// Match says how; "" is Exact.
	Match Match

	// Returns is the raw JSON value that the script gets.
	Returns []byte
	// Result is a raw CallToolResult.
	Result []byte
	// Raises is an error of the tool.
	Raises *Raise
	// RPCError is a raw JSON-RPC error object.
	RPCError []byte

	// Delay is the time until the answer comes.
	Delay time.Duration
	// Times is how often the interaction may be used; 0: any number of times.
	Times int
	// From says where it is written, for messages: "x.cassette.toml:12".
	From string
}

// Raise is an isError result: a script gets a ToolError. Its class is always
// abi.ErrTool, since all others are given by the host.
type Raise struct {
	Message string
	// Details is the raw JSON value that the error has as details: the result's
	// structuredContent. Nil: the result's content.
	Details []byte
}

// Check says what is wrong with an interaction.
func (i Interaction) Check() error {
	kinds := 0
	for _, set := range []bool{i.Returns != nil, i.Result != nil, i.Raises != nil, i.RPCError != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case i.Server == "" || i.Tool == "":
		return &FieldError{Key: "tool", Text: `is not named (tool = "server.tool")`}
	case i.Server == abi.Composites:
		return &FieldError{Key: "tool", Text: "is a saved tool; those run as they are, so mock the tools that they call"}
	case i.Params != nil && !wire.IsObject(i.Params):
		return &FieldError{Key: "params", Text: "is no JSON object"}
	case i.Match != "" && i.Match != Exact && i.Match != Subset:
		return &FieldError{Key: "match", Text: fmt.Sprintf(`is %q, want "exact" or "subset"`, i.Match)}
	case i.Returns != nil && !json.Valid(i.Returns):
		return &FieldError{Key: "returns", Text: "is no JSON value"}
	case i.Result != nil && !wire.IsObject(i.Result):
		return &FieldError{Key: "result", Text: "is no JSON object"}
	case i.Raises != nil && i.Raises.Details != nil && !json.Valid(i.Raises.Details):
		return &FieldError{Key: "raises", Text: "has details that are no JSON value"}
	case i.RPCError != nil && !wire.IsObject(i.RPCError):
		return &FieldError{Key: "error", Text: "is no JSON object"}
	case i.Delay < 0:
		return &FieldError{Key: "delay", Text: "is below zero"}
	case i.Times < 0:
		return &FieldError{Key: "times", Text: "is below zero"}
	case kinds == 0:
		return &FieldError{Key: "", Text: "has no answer (give it one of returns, text, result, raises and error)"}
	case kinds > 1:
		return &FieldError{Key: "", Text: "has more than one answer (one of returns, text, result, raises and error)"}
	}
	return nil
}

// FieldError says what is wrong with one key of an interaction; "" is the
// interaction as a whole.
type FieldError struct {
	Key, Text string
	offset    int // in JSON text that is wrong: of the byte, from 1; 0: none
}

func (e *FieldError) Error() string {
	if e.Key == "" {
		return e.Text
	}
	return e.Key + " " + e.Text
}

// name is what messages call the tool.
func (i *Interaction) name() string { return i.Server + "." + i.Tool }

// Cassette answers calls. It is safe for concurrent use; how often which
// interaction was used counts for its whole life, so each run has one of its
// own.
type Cassette struct {
	interactions []Interaction
	// Which interactions there are for a tool, by index: with its real names, and
	// with its script names.
	byName, byIdent map[toolName][]int

	mu        sync.Mutex // guards what follows
	used      []int      // by index of interactions
	unmatched []*UnmatchedError
}

// New makes a Cassette. A call gets the first interaction that fits it and is not
// used up. The bytes are kept and must not be changed. An error is one of
// Interaction.Check, with the number and place of the interaction.
func New(interactions ...Interaction) (*Cassette, error) {
	c := &Cassette{
		interactions: slices.Clone(interactions), used: make([]int, len(interactions)),
		byName: map[toolName][]int{}, byIdent: map[toolName][]int{},
	}
	var errs []error
	for n := range c.interactions {
		i := &c.interactions[n]
		if err := i.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.label(n), err))
		}
		name := toolName{i.Server, i.Tool}
		c.byName[name] = append(c.byName[name], n)
		c.byIdent[name.ident()] = append(c.byIdent[name.ident()], n)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// toolName is the name of a tool, with that of its server.
type toolName struct{ server, tool string }

// ident is the name in scripts.
func (n toolName) ident() toolName { return toolName{abi.Ident(n.server), abi.Ident(n.tool)} }

// label is what messages call interaction n.
func (c *Cassette) label(n int) string {
	i := &c.interactions[n]
	if i.From != "" {
		return i.From
	}
	return fmt.Sprintf("mock %d (%s)", n+1, i.name())
}

// Interactions are all that the cassette has, in order.
func (c *Cassette) Interactions() []Interaction { return slices.Clone(c.interactions) }

// Unused are the interactions that no call has used, in order.
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

// Unmatched are the calls that got no answer, in the order in which they came. A
// script can catch the error that it gets; whoever tests it should not.
func (c *Cassette) Unmatched() []*UnmatchedError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unmatched)
}

// tools are the names of the tools that there are interactions for, in order.
func (c *Cassette) tools() []string {
	var names []string
	for n := range c.interactions {
		if name := c.interactions[n].name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// list names at most a dozen of names for a message.
func list(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compact is valid JSON without space between its tokens.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil { // it is nested too deep for the library
		return raw
	}
	return b.Bytes()
}
