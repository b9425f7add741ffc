package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one JSON-RPC message. Absent members are nil.
type Message struct {
	ID     []byte // raw: a string or number token; null only in error responses
	Method string // "" in a response
	Params []byte // raw
	Result []byte // raw
	Error  []byte // raw
}

// IsRequest tells whether m demands an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification tells whether m is a method call without an id.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse tells whether m answers a request.
func (m Message) IsResponse() bool { return m.Method == "" }

// Reply is the outcome of a request: exactly one of Result and Error is set, with
// the raw bytes of the response's result or error member.
type Reply struct {
	Result []byte
	Error  []byte
	// Denied is why the request was not sent, where Call.Permit did not allow it;
	// Result then says so to whoever made the request.
	Denied error
}

// Parse reads one message. raw must be one JSON object and nothing else.
//
// The error is an *RPCError: CodeParse for malformed JSON, CodeInvalidRequest
// for JSON that is no JSON-RPC 2.0 message. In the second case the returned
// message still has the ID, if one could be read, so that it can be answered.
func Parse(raw []byte) (Message, error) {
	var m Message
	var version, method []byte
	var duplicate string
	o := walk(raw)
	for o.next() {
		dst := m.field(o.name(), &version, &method)
		if dst == nil {
			continue
		}
		if *dst != nil {
			duplicate = string(o.name())
		}
		*dst = o.value()
	}
	if o.err != nil {
		return Message{}, broken(raw, o.err)
	}
	if m.ID != nil && !validID(m.ID) && (m.Error == nil || string(m.ID) != "null") {
		id := m.ID
		m.ID = nil
		return m, Errorf(CodeInvalidRequest, "invalid request: id must be a string or a number, got %s", clip(id))
	}
	switch {
	case duplicate != "":
		return m, Errorf(CodeInvalidRequest, "invalid request: member %q appears twice", duplicate)
	case string(version) != `"2.0"`:
		return m, Errorf(CodeInvalidRequest, `invalid request: jsonrpc must be "2.0"`)
	case method != nil:
		if m.Method = methodName(method); m.Method == "" {
			return m, Errorf(CodeInvalidRequest, "invalid request: method must be a non-empty string, got %s", clip(method))
		}
		if m.Result != nil || m.Error != nil {
			return m, Errorf(CodeInvalidRequest, "invalid request: a message with a method has no result or error")
		}
		if c := firstByte(m.Params); m.Params != nil && c != '{' && c != '[' {
			return m, Errorf(CodeInvalidRequest, "invalid request: params must be an object")
		}
	case (m.Result != nil) == (m.Error != nil):
		return m, Errorf(CodeInvalidRequest, "invalid request: neither a method nor exactly one of result and error")
	case m.ID == nil:
		return m, Errorf(CodeInvalidRequest, "invalid request: a response needs an id")
	}
	return m, nil
}

// broken is what Parse makes of the error of a text that is no object.
func broken(raw []byte, err error) *RPCError {
	if errors.Is(err, errNotObject) {
		end, f := scanValue(raw, space(raw, 0), 0)
		if f != sound {
			err = syntax(raw, end, f)
		} else if err = nothing(raw, end); err == nil {
			return Errorf(CodeInvalidRequest, "invalid request: a message is a JSON object")
		}
	}
	return Errorf(CodeParse, "parse error: %v", err)
}

// field is where the value of a member goes; nil for members that do not matter.
func (m *Message) field(name []byte, version, method *[]byte) *[]byte {
	switch string(name) {
	case "jsonrpc":
		return version
	case "method":
		return method
	case "id":
		return &m.ID
	case "params":
		return &m.Params
	case "result":
		return &m.Result
	case "error":
		return &m.Error
	}
	return nil
}

// usual are methods that need no memory of their own.
var usual = map[string]string{
	`"tools/call"`: "tools/call", `"notifications/progress"`: "notifications/progress",
	`"notifications/message"`: "notifications/message", `"notifications/cancelled"`: "notifications/cancelled",
}

// methodName is the string raw; "" when it is none.
func methodName(raw []byte) string {
	if name, ok := usual[string(raw)]; ok {
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

// clip bounds what of a hostile message is quoted in an error.
func clip(raw []byte) string {
	if len(raw) > 64 {
		return string(bytes.ToValidUTF8(raw[:64], nil)) + "..."
	}
	return string(raw)
}

// IDKey makes a map key of a raw id or progress token: two spellings of one
// string give one key, and the number 1 and the string "1" give different ones.
func IDKey(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		if s, err := jsontext.AppendUnquote([]byte{'"'}, raw); err == nil {
			return string(s)
		}
	}
	return string(raw)
}

// maxBatch is the most messages in one batch.
const maxBatch = 10_000

// Split parts a JSON-RPC batch (revision 2025-03-26 only) into its messages.
// ok is false when raw does not begin like an array. The error is an *RPCError.
func Split(raw []byte) (items [][]byte, ok bool, err error) { return split(raw, maxBatch) }

func split(raw []byte, most int) (items [][]byte, ok bool, err error) {
	if firstByte(raw) != '[' {
		return nil, false, nil
	}
	i := space(raw, space(raw, 0)+1)
	if i < len(raw) && raw[i] == ']' {
		return ended(raw, i+1, nil)
	}
	for {
		end, f := scanValue(raw, i, 1)
		if f != sound {
			return nil, true, Errorf(CodeParse, "parse error: %v", syntax(raw, end, f))
		}
		if len(items) == most {
			return nil, true, Errorf(CodeInvalidRequest, "invalid request: an array of more than %d items", most)
		}
		items = append(items, raw[i:end])
		i = space(raw, end)
		switch {
		case i < len(raw) && raw[i] == ']':
			return ended(raw, i+1, items)
		case i == len(raw) || raw[i] != ',':
			return nil, true, Errorf(CodeParse, "parse error: %v", syntax(raw, i, unexpected))
		}
		i = space(raw, i+1)
	}
}

// ended is what split returns at the end of the array.
func ended(raw []byte, i int, items [][]byte) ([][]byte, bool, error) {
	if err := nothing(raw, i); err != nil {
		return nil, true, Errorf(CodeParse, "parse error: %v", err)
	}
	return items, true, nil
}

// Request builds a request with one of our own ids. params may be nil.
func Request(id int64, method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	return appendCall(b, method, params)
}

// Notification builds a notification. params may be nil.
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

// Response builds the response to the request with the raw id. A nil id
// becomes null, as JSON-RPC wants where the id could not be read.
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

// Marshal encodes v, which must be a value that JSON can hold, without
// escaping HTML.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("wire: unencodable value: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
