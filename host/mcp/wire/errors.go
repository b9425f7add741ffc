package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

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
