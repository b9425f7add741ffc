package wire

import (
	"bytes"
	"encoding/json"
	"errors"
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
