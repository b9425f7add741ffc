// Package wire handles JSON-RPC 2.0 messages as raw bytes. It parses a message only as far as routing
// needs: unknown members, integers of any size and future protocol revisions pass unchanged.
//
// Begin with Parse and Message; Reader and EventReader read messages from streams, Get and Set read
// and edit members, Shape refuses messages that JSON parsers would read in different ways, and Call
// describes a request to a peer.
//
// Returned slices alias the input unless stated otherwise, and must not be written to.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Message is one JSON-RPC message. Absent members are nil.
type Message struct {
	ID     []byte // raw: a string or number token; null only in error responses
	Method string // "" in a response
	Params []byte // raw
	Result []byte // raw
	Error  []byte // raw
}

// IsRequest reports whether m is a request, which must be answered.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether m is a notification, with a method and without an id.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether m answers a request.
func (m Message) IsResponse() bool { return m.Method == "" }

// Reply is the outcome of a request: either Result or Error is set, with the raw bytes of the
// response's result or error member.
type Reply struct {
	Result []byte
	Error  []byte
	// Denied is the reason why Call.Permit refused the request; nil if it permitted the request.
	// Result then holds a result with this reason.
	Denied error
	// Stateless is set if the answering peer is of the stateless era. Members of Result that only
	// this era defines then have their meaning.
	Stateless bool
	// Own is set if the proxy made the reply for the client, in the form of the client's era. Not
	// every reply of the proxy has Own set.
	Own bool
	// Elsewhere is set if a durable run continues in another process: Result is not the end of the
	// run.
	Elsewhere bool
}

// Parse reads a message. raw must be a single JSON object in UTF-8. Parse refuses members that JSON
// parsers would read in different ways (see Shape), in the message and in the objects within the
// message that have a Shape.
//
// The error is an *RPCError: CodeParse for malformed JSON, CodeInvalidRequest for JSON other than a
// JSON-RPC 2.0 message, CodeInvalidParams for ambiguous params. An error about ambiguity wraps
// ErrAmbiguous. Except with CodeParse, the returned message has the ID if it was readable, for the
// answer; with ambiguous params the message is complete.
func Parse(raw []byte) (Message, error) {
	if !utf8.Valid(raw) {
		return Message{}, Errorf(CodeParse, "parse error: the message is not UTF-8")
	}
	return parse(raw)
}

// ParseRepaired is Parse, but replaces invalid UTF-8 by U+FFFD first. Without invalid
// UTF-8 the parts of the message alias raw.
func ParseRepaired(raw []byte) (Message, error) {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return parse(raw)
}

func parse(raw []byte) (Message, error) {
	var c checker
	if err := c.message(raw); err != nil {
		return Message{}, err
	}
	version, method := c.parts[0], c.parts[2]
	m := Message{ID: c.parts[1], Params: c.parts[3], Result: c.parts[4], Error: c.parts[5]}
	if m.ID != nil && !validID(m.ID) && (m.Error == nil || string(m.ID) != "null") {
		id := m.ID
		m.ID = nil
		return m, Errorf(CodeInvalidRequest, "invalid request: id must be a string or a number, got %s", excerpt(id))
	}
	if method != nil {
		m.Method = methodName(method)
	}
	found := &c.found
	ofParams := m.Method != "" && found.kind != unambiguous && strings.HasPrefix(found.shape.path, "params")
	switch {
	case found.kind != unambiguous && !ofParams:
		return m, ambiguous(CodeInvalidRequest, "invalid request: %s", found)
	case string(version) != `"2.0"`:
		return m, Errorf(CodeInvalidRequest, `invalid request: jsonrpc must be "2.0"`)
	case method != nil:
		if m.Method == "" {
			return m, Errorf(CodeInvalidRequest, "invalid request: method must be a non-empty string, got %s", excerpt(method))
		}
		if m.Result != nil || m.Error != nil {
			return m, Errorf(CodeInvalidRequest, "invalid request: a message with a method has no result or error")
		}
		if c := firstByte(m.Params); m.Params != nil && c != '{' && c != '[' {
			return m, Errorf(CodeInvalidRequest, "invalid request: params must be an object")
		}
		if ofParams {
			return m, ambiguous(CodeInvalidParams, "invalid params: %s", found)
		}
	case (m.Result != nil) == (m.Error != nil):
		return m, Errorf(CodeInvalidRequest, "invalid request: neither a method nor exactly one of result and error")
	case m.ID == nil:
		return m, Errorf(CodeInvalidRequest, "invalid request: a response needs an id")
	}
	return m, nil
}

func ambiguous(code int, format string, found *ambiguity) *RPCError {
	e := Errorf(code, format, found.text())
	e.cause = ErrAmbiguous
	return e
}

// methodNames maps frequent methods, as JSON strings, to their names: reading such a method
// allocates nothing.
var methodNames = map[string]string{
	`"` + protocol.MethodToolsCall + `"`:       protocol.MethodToolsCall,
	`"` + protocol.NotificationProgress + `"`:  protocol.NotificationProgress,
	`"` + protocol.NotificationMessage + `"`:   protocol.NotificationMessage,
	`"` + protocol.NotificationCancelled + `"`: protocol.NotificationCancelled,
}

// methodName returns the string in raw, "" if raw is not a string.
func methodName(raw []byte) string {
	if name, ok := methodNames[string(raw)]; ok {
		return name
	}
	var name string
	_ = json.Unmarshal(raw, &name)
	return name
}

func validID(raw []byte) bool {
	c := firstByte(raw)
	return c == '"' || c == '-' || c >= '0' && c <= '9'
}

func firstByte(raw []byte) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

// excerpt shortens raw JSON from a peer for an error message.
func excerpt(raw []byte) string { return display.Excerpt(string(raw), 64) }

// IDKey returns a map key for a raw id or progress token. Two encodings of the same
// string give the same key; the number 1 and the string "1" give different keys.
func IDKey(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		if s, err := jsontext.AppendUnquote([]byte{'"'}, raw); err == nil {
			return string(s)
		}
	}
	return string(raw)
}

// maxBatch is the maximum number of messages in a batch.
const maxBatch = 10_000

// Split splits a JSON-RPC batch (revision 2025-03-26 only) into its messages. ok is false if raw
// does not begin like an array. The error is an *RPCError.
func Split(raw []byte) (items [][]byte, ok bool, err error) {
	if items, ok, err = split(raw, maxBatch); err != nil {
		return nil, ok, tooMany(err, maxBatch)
	}
	return items, ok, nil
}

// errTooMany means that an array has more elements than the caller of split accepts.
var errTooMany = errors.New("too many elements")

// tooMany returns err, but an *RPCError in place of errTooMany.
func tooMany(err error, most int) error {
	if errors.Is(err, errTooMany) {
		return Errorf(CodeInvalidRequest, "invalid request: an array of more than %d items", most)
	}
	return err
}

// split returns the elements of an array. Of a longer array than most, split returns the first
// elements and errTooMany, and leaves the rest unread.
func split(raw []byte, most int) (items [][]byte, ok bool, err error) {
	if firstByte(raw) != '[' {
		return nil, false, nil
	}
	i := skipSpace(raw, skipSpace(raw, 0)+1)
	if i < len(raw) && raw[i] == ']' {
		return endSplit(raw, i+1, nil)
	}
	for {
		end, f := scanValue(raw, i, 1)
		if f != noFault {
			return nil, true, Errorf(CodeParse, "parse error: %v", syntax(raw, end, f))
		}
		if len(items) == most {
			return items, true, errTooMany
		}
		items = append(items, raw[i:end])
		i = skipSpace(raw, end)
		switch {
		case i < len(raw) && raw[i] == ']':
			return endSplit(raw, i+1, items)
		case i == len(raw) || raw[i] != ',':
			return nil, true, Errorf(CodeParse, "parse error: %v", syntax(raw, i, unexpected))
		}
		i = skipSpace(raw, i+1)
	}
}

// endSplit returns the results of split when the array ends at i.
func endSplit(raw []byte, i int, items [][]byte) ([][]byte, bool, error) {
	if err := checkEnd(raw, i); err != nil {
		return nil, true, Errorf(CodeParse, "parse error: %v", err)
	}
	return items, true, nil
}

// The three functions below append literal members instead of using Object, because
// every proxied call uses them and quoting the names each time costs time.

// Request returns a request with an id of the proxy. params may be nil.
func Request(id int64, method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	return appendCall(b, method, params)
}

// Notification returns a notification. params may be nil.
func Notification(method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+48)
	b = append(b, `{"jsonrpc":"2.0","method":`...)
	return appendCall(b, method, params)
}

func appendCall(b []byte, method string, params []byte) []byte {
	b = AppendQuote(b, method)
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

// Response returns the response to the request with the raw id. A nil id becomes null,
// as JSON-RPC requires if the id could not be read.
func Response(id []byte, r Reply) []byte {
	b := make([]byte, 0, len(id)+len(r.Result)+len(r.Error)+48)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		id = []byte("null")
	}
	b = append(b, id...)
	if r.Error != nil {
		b = append(b, `,"error":`...)
		b = append(b, r.Error...)
	} else {
		b = append(b, `,"result":`...)
		b = append(b, r.Result...)
	}
	return append(b, '}')
}

// Marshal encodes v without escaping HTML. Marshal panics if v cannot be encoded.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("wire: unencodable value: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// The error codes of JSON-RPC 2.0, section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// RPCError is a JSON-RPC error object of our own. Errors of upstreams are kept as raw
// bytes instead (see Reply).
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	cause error // nil for none
}

// Unwrap returns ErrAmbiguous if the message was refused as ambiguous, otherwise nil.
func (e *RPCError) Unwrap() error { return e.cause }

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf returns an RPCError with a formatted message.
func Errorf(code int, format string, args ...any) *RPCError {
	return &RPCError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Raw returns the JSON of the error object.
func (e *RPCError) Raw() []byte { return Marshal(e) }

// ParseError reads the error object in raw. Missing and malformed members leave their fields zero.
func ParseError(raw []byte) *RPCError {
	var e RPCError
	if code, ok := Get(raw, "code"); ok {
		_ = json.Unmarshal(code, &e.Code)
	}
	if msg, ok := Get(raw, "message"); ok {
		_ = json.Unmarshal(msg, &e.Message)
	}
	if data, ok := Get(raw, "data"); ok {
		e.Data = data
	}
	return &e
}

// CancelledError is the cause of a request's context when the sender cancelled the request with
// notifications/cancelled.
type CancelledError struct {
	// Params is the raw params of the notification; requestId is the sender's id.
	Params []byte
}

func (e *CancelledError) Error() string {
	if reason, ok := GetString(e.Params, "reason"); ok && reason != "" {
		return "cancelled by the client: " + reason
	}
	return "cancelled by the client"
}

// ErrUnusable means that a peer's response violates the protocol and is unusable.
var ErrUnusable = errors.New("unusable answer")

// ErrClosed means that a connection was closed on our side.
var ErrClosed = errors.New("connection closed")

// CancelParams returns the params of notifications/cancelled for our request id. If the cause is a
// notification, the params keep its reason and _meta.
func CancelParams(cause error, id int64) []byte {
	raw := strconv.AppendInt(nil, id, 10)
	var cancelled *CancelledError
	if errors.As(cause, &cancelled) && cancelled.Params != nil {
		if params, err := Set(cancelled.Params, raw, "requestId"); err == nil {
			return params
		}
	}
	var params Object
	params.Raw("requestId", raw)
	params.Text("reason", cause.Error())
	return params.Bytes()
}

// Call is a request to a peer.
type Call struct {
	Method string
	// Params is the raw params object; nil for none. The connection replaces or removes a progress
	// token in params.
	Params []byte
	// Progress, if set, is called with the raw params of each progress notification for the
	// request, in order and before the response. If the response is a continuing task (revision
	// 2025-11-25, basic/utilities/tasks), calls can follow until the task has ended.
	Progress func(params []byte)
	// Sent, if set, is called with the final params, including their token, before they are sent,
	// and again before each further attempt, after an attempt did not reach the peer. Sent must not
	// block.
	Sent func(params []byte)
	// Late, if set, is called with "progress" or "an answer" when something arrives for the request
	// after ctx has ended, on transports with late answers. Late runs on the read loop and must not
	// block.
	Late func(what string)
	// Owner is an arbitrary comparable value. Messages of the peer that belong to this request
	// carry the value back to the caller (Inbound.Owners). Nil for none.
	Owner any
	// Group is an arbitrary comparable value shared by the calls of a client. Memory of ended calls
	// is shared fairly between groups. Nil for none.
	Group any
	// Client is the self-description of the client behind the request: a raw object with the
	// client's capabilities and clientInfo, as in the params of initialize. Nil without a client. A
	// request of the stateless era repeats the description.
	Client []byte
	// LogLevel is the lowest level of the log messages that this client wants with the request; ""
	// if the client asked for none. A request of the stateless era repeats the level.
	LogLevel string
	// Inputs are the answers to the questions with which the peer answered an earlier attempt of
	// this request. A request of the stateless era has the answers in its params.
	Inputs Inputs
	// Header has the HTTP headers of a request of the stateless era, as an http.Header; nil for
	// every other request. Such a request belongs to no session. Closing the request's stream
	// cancels the request; the stream is never resumed.
	Header map[string][]string
	// Unsure is set for a request to a client if several requests of the client, or calls of a
	// script, are in flight, and the related request was guessed.
	Unsure bool
	// Own is set for a request to a client if the proxy itself asks, and no upstream.
	Own bool
	// Permit, if set, is asked each time before the request is written: the first time, and after
	// each wait or new connection. After an error of Permit, the request is not sent and the call
	// fails with the error.
	Permit Permit
}

// Inputs are the members that a request of the stateless era returns to a peer that answered with
// questions (revision 2026-07-28, basic/patterns/mrtr). The zero value is for the first attempt of
// a request.
type Inputs struct {
	Responses []byte // raw object with the answers; nil for none
	State     []byte // raw requestState of the peer's answer; nil if absent
}

// IsZero reports whether in has no member to return.
func (in Inputs) IsZero() bool { return in.Responses == nil && in.State == nil }

// Permit decides whether a request may still be sent. The connection's goroutines call Permitted,
// which must not block and must be safe for concurrent use.
type Permit interface {
	// Permitted returns why the request may no longer be sent, or nil.
	Permitted() error
}

// DeniedError is the error of a request that was not sent because the Permit refused.
type DeniedError struct{ Err error }

func (e *DeniedError) Error() string { return e.Err.Error() }

func (e *DeniedError) Unwrap() error { return e.Err }

// CheckPermit calls p.Permitted, unless p is nil. The error is a *DeniedError.
func CheckPermit(p Permit) error {
	if p == nil {
		return nil
	}
	if err := p.Permitted(); err != nil {
		return &DeniedError{err}
	}
	return nil
}

// CompletionFunc receives the outcome of an asynchronous call: the reply, or, if next is not nil, a
// continuation that returns the reply or an error. A non-nil next must be called. A CompletionFunc
// must not block.
type CompletionFunc func(reply Reply, next Continuation)

// Continuation does the rest of a call. A Continuation may block until ctx ends.
type Continuation func(ctx context.Context) (Reply, error)

// Inbound is a request or notification sent by a peer on its own initiative.
type Inbound struct {
	Method string
	Params []byte // raw; nil if absent; the receiver may keep it
	// Owners returns the owners, without nil ones, of the pending calls that the message may belong
	// to, oldest first. If the transport ties the message to a call's stream (HTTP), Owners returns
	// only this call's owner; otherwise the owners of all pending calls of the connection, perhaps
	// none. The function is valid while the message is handled, and takes no locks of its caller.
	Owners func() []any
	// Await waits until decided returns true for the owners with calls in flight since the message
	// arrived, or until ctx ends, and returns these owners. A call that was cancelled before the
	// message arrived counts for a few seconds more. A call that is cancelled while Await waits
	// continues to count. Only requests have Await.
	Await func(ctx context.Context, decided func(owners []any) bool) []any
}

// Surface is a kind of list that an MCP server can offer. The value of a Surface is the name of the
// member in list results.
type Surface string

// The surfaces (revision 2025-11-25, server).
const (
	Tools     Surface = "tools"
	Resources Surface = "resources"
	Templates Surface = "resourceTemplates"
	Prompts   Surface = "prompts"
)

// Surfaces lists all surfaces.
var Surfaces = []Surface{Tools, Resources, Templates, Prompts}

// ListMethod returns the method of the list request.
func (s Surface) ListMethod() string {
	switch s {
	case Tools:
		return protocol.MethodToolsList
	case Resources:
		return protocol.MethodResourcesList
	case Templates:
		return protocol.MethodResourceTemplatesList
	}
	return protocol.MethodPromptsList
}

// ChangedMethod returns the method of the notification of a change. Templates share the method of
// resources.
func (s Surface) ChangedMethod() string {
	switch s {
	case Tools:
		return protocol.NotificationToolsChanged
	case Prompts:
		return protocol.NotificationPromptsChanged
	}
	return protocol.NotificationResourcesChanged
}

// Capability returns the member for the surface in a server's capabilities.
func (s Surface) Capability() string {
	if s == Templates {
		return string(Resources)
	}
	return string(s)
}

// Key returns the name of the member with the identity of an item of the surface.
func (s Surface) Key() string {
	switch s {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	}
	return "name"
}

// Plural returns the name of the items, for messages.
func (s Surface) Plural() string {
	if s == Templates {
		return "resource templates"
	}
	return string(s)
}
