package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// JSON-RPC 2.0 section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// RPCError is a JSON-RPC error object that we make ourselves. An error that an
// upstream made is kept as raw bytes instead (see Reply).
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	cause error // nil for none
}

// Unwrap is ErrAmbiguous where a message was refused for that; nil otherwise.
func (e *RPCError) Unwrap() error { return e.cause }

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf makes an RPCError.
func Errorf(code int, format string, args ...any) *RPCError {
	return &RPCError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Raw is the error object's JSON.
func (e *RPCError) Raw() []byte { return Marshal(e) }

// ParseError is the error object in raw, as far as it can be read: an object
// that lacks a code or message gives those fields zero.
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

// CancelledError is the cause of a request's context when its sender took it
// back with notifications/cancelled.
type CancelledError struct {
	// Params of the notification, raw; its requestId is the sender's.
	Params []byte
}

func (e *CancelledError) Error() string {
	if reason, ok := GetString(e.Params, "reason"); ok && reason != "" {
		return "cancelled by the client: " + reason
	}
	return "cancelled by the client"
}

// ErrUnusable says that a peer's answer to a request could not be used: a
// failure of the protocol, not of what was asked for.
var ErrUnusable = errors.New("unusable answer")

// ErrClosed says that a connection was closed on our side.
var ErrClosed = errors.New("connection closed")

// CancelParams are the params of notifications/cancelled for our request id,
// made of the notification that was the cause, if one was, so that its reason
// and _meta travel.
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
