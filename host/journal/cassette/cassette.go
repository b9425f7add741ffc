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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
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

// UnknownToolError means that a script uses a tool without a mock.
type UnknownToolError struct {
	Server, Tool string // as the script wrote them
	Mocked       []string
}

func (e *UnknownToolError) Error() string {
	if len(e.Mocked) == 0 {
		return fmt.Sprintf("there is no mock for %s.%s: there are no mocks", e.Server, e.Tool)
	}
	msg := fmt.Sprintf("there is no mock for %s.%s", e.Server, e.Tool)
	if near := nearest.Names(e.Server+"."+e.Tool, e.Mocked); near != nil {
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return msg + "; there are mocks of " + list(e.Mocked)
}

// Servers implements compose.Catalog. Servers returns the script names of all servers with
// interactions, in order.
func (c *Cassette) Servers() []string { return slices.Clone(c.servers) }

// InputSchema implements compose.Catalog. Mocks have no schemas.
func (c *Cassette) InputSchema(string, string) []byte { return nil }

// Disabled implements compose.Catalog. Mocks are never disabled.
func (c *Cassette) Disabled() []string { return nil }

// Remembered implements compose.Catalog. Mocks are always current.
func (c *Cassette) Remembered(string) bool { return false }

// Resolve implements compose.Catalog. Resolve finds a tool by the name in the interactions, or by
// the script name. The error is an *UnknownToolError, or a *catalog.AmbiguousError if two tools of
// a server have the same script name.
func (c *Cassette) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	var found []string
	id := abi.Ident(tool)
	for _, t := range c.tools[server] {
		switch {
		case exact && t.tool == tool:
			return t.server, tool, nil
		case abi.Ident(t.tool) == id && !slices.Contains(found, t.tool):
			realServer, found = t.server, append(found, t.tool)
		}
	}
	switch len(found) {
	case 0:
		return server, tool, &UnknownToolError{Server: server, Tool: tool, Mocked: c.names}
	case 1:
		return realServer, found[0], nil
	}
	return realServer, tool, &catalog.AmbiguousError{Server: realServer, Name: tool, Tools: found}
}

// Over returns a catalog of the tools of real and of the cassette. Arguments are checked against
// the schemas of real, tools hidden by real stay hidden, and a script can refer to servers of real
// without calling them.
func (c *Cassette) Over(real compose.Catalog) compose.Catalog { return &overlay{c, real} }

// overlay is the catalog returned by Over.
type overlay struct {
	cassette *Cassette
	real     compose.Catalog
}

func (o *overlay) Servers() []string {
	names := slices.Clone(o.real.Servers())
	for _, name := range o.cassette.Servers() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (o *overlay) InputSchema(server, tool string) []byte { return o.real.InputSchema(server, tool) }

// Disabled returns the disabled servers of real without mocks.
func (o *overlay) Disabled() []string {
	mocked := o.cassette.Servers()
	return slices.DeleteFunc(o.real.Disabled(), func(name string) bool { return slices.Contains(mocked, name) })
}

// Remembered returns false: no call is sent, so no server needs to be awaited.
func (o *overlay) Remembered(string) bool { return false }

func (o *overlay) Resolve(server, tool string, exact bool) (realServer, realTool string, err error) {
	realServer, realTool, err = o.real.Resolve(server, tool, exact)
	_, unknown := err.(*catalog.NotFoundError)
	if _, disabled := err.(*catalog.DisabledError); unknown || disabled && slices.Contains(o.cassette.Servers(), server) {
		return o.cassette.Resolve(server, tool, exact)
	}
	return realServer, realTool, err
}

// Recorder is an Upstreams that forwards calls to another Upstreams and records them. A Recorder is
// safe for concurrent use.
type Recorder struct {
	compose.Upstreams
	redact func([]byte) []byte

	mu    sync.Mutex      // guards the fields below
	calls []*recordedCall // in the order in which they were begun
}

// recordedCall is a started call.
type recordedCall struct {
	Interaction
	done bool
}

// NewRecorder returns a Recorder for the calls to up. redact removes secrets from the
// text of a string or number in params and answers; nil: nothing is removed.
func NewRecorder(up compose.Upstreams, redact func([]byte) []byte) *Recorder {
	return &Recorder{Upstreams: up, redact: redact}
}

// CallUpstream implements compose.Upstreams. If ctx ends before the answer, the call is
// not recorded.
func (r *Recorder) CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply {
	made := &recordedCall{Interaction: Interaction{Server: call.Server, Tool: call.Tool, Times: 1}}
	made.Params = r.clean(argumentsOf(call.Params))
	r.mu.Lock()
	r.calls = append(r.calls, made)
	r.mu.Unlock()
	reply := r.Upstreams.CallUpstream(ctx, origin, call)
	if ctx.Err() != nil || reply.Denied != nil { // the server has not answered
		return reply
	}
	result, failed := r.clean(reply.Result), r.clean(reply.Error)
	r.mu.Lock()
	defer r.mu.Unlock()
	made.Result, made.RPCError, made.done = result, failed, true
	if failed != nil {
		made.Result = nil
	}
	return reply
}

// clean returns a copy of a raw JSON object without secrets, nil if raw is not an object.
func (r *Recorder) clean(raw []byte) []byte {
	if !wire.IsObject(raw) {
		return nil
	}
	return redactJSON(raw, r.redact)
}

// Interactions returns the answered calls, in the order of their beginning. Each can be used once.
// Calls with answers other than JSON objects are left out.
func (r *Recorder) Interactions() []Interaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Interaction
	for _, c := range r.calls {
		if c.done && c.Check() == nil {
			all = append(all, c.Interaction)
		}
	}
	return all
}

// redactJSON applies redact to the text of each string, name and number in raw, which is valid
// JSON. A changed number becomes a string, so the result is valid JSON for any redact. The result
// is compact and valid UTF-8.
func redactJSON(raw []byte, redact func([]byte) []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	raw = compact(raw)
	if redact == nil {
		return raw
	}
	var out []byte
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	end := 0
	for {
		token, err := d.ReadToken()
		if err != nil { // io.EOF, or nested too deeply for the decoder
			if end < len(raw) {
				return wire.Quote(string(redact(raw)))
			}
			return out
		}
		from := end
		end = int(d.InputOffset())
		text := token.String()
		kind := token.Kind()
		if kind != '"' && kind != '0' {
			out = append(out, raw[from:end]...)
			continue
		}
		if clean := string(redact([]byte(text))); clean != text {
			out = append(append(out, separators(raw[from:end])...), wire.Quote(clean)...)
		} else {
			out = append(out, raw[from:end]...)
		}
	}
}

// separators returns the colon or comma before a token.
func separators(raw []byte) []byte {
	if len(raw) > 0 && (raw[0] == ':' || raw[0] == ',') {
		return raw[:1]
	}
	return nil
}
