package telemetry

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// The values of error.type besides codes of JSON-RPC. The conventions have the first and the last.
const (
	toolError        = "tool_error"        // a result with isError
	cancelled        = "cancelled"         // by the sender of the request
	timeout          = "timeout"           // no answer in time
	permissionDenied = "permission_denied" // the request was not sent
	connectionClosed = "connection_closed" // before the answer
	invalidResponse  = "invalid_response"  // an unusable answer
	otherError       = "_OTHER"
)

// outcome is how a request ended.
type outcome struct {
	errorType string // "" for success
	status    string // the code of a JSON-RPC error; "" for none
}

// outcomeOf returns the outcome of a request with the given reply, or with err.
func outcomeOf(reply wire.Reply, err error) outcome {
	switch {
	case err != nil:
		return failureOf(err)
	case reply.Denied != nil:
		return outcome{errorType: permissionDenied}
	case reply.Error != nil:
		code := strconv.Itoa(wire.ParseError(reply.Error).Code)
		return outcome{code, code}
	}
	if failed, _ := wire.Get(reply.Result, "isError"); string(failed) == "true" {
		return outcome{errorType: toolError}
	}
	return outcome{}
}

func failureOf(err error) outcome {
	var byClient *wire.CancelledError
	var denied *wire.DeniedError
	var refused *wire.RPCError
	var late *servers.TimeoutError
	var down *servers.DownError
	switch {
	case errors.As(err, &byClient), errors.Is(err, context.Canceled):
		return outcome{errorType: cancelled}
	case errors.As(err, &denied):
		return outcome{errorType: permissionDenied}
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return outcome{errorType: timeout}
	case errors.Is(err, wire.ErrUnusable):
		return outcome{errorType: invalidResponse}
	case errors.As(err, &down), errors.Is(err, wire.ErrClosed):
		return outcome{errorType: connectionClosed}
	case errors.As(err, &refused):
		code := strconv.Itoa(refused.Code)
		return outcome{code, code}
	}
	return outcome{errorType: otherError}
}

// attributes returns the attributes of the outcome, none if the request succeeded.
func (o outcome) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	if o.errorType != "" {
		all = append(all, keyErrorType.String(o.errorType))
	}
	if o.status != "" {
		all = append(all, keyStatusCode.String(o.status))
	}
	return all
}

// bounded returns the outcome for metrics. All codes that JSON-RPC does not define become a single
// value, since a server could answer each call with another code.
func (o outcome) bounded() outcome {
	code, err := strconv.Atoi(o.status)
	switch {
	case err != nil || protocol.IsReservedCode(code):
		return o
	}
	return outcome{otherError, otherError}
}

// set sets the outcome of a span. The status has no description: messages of errors can
// quote arguments.
func (o outcome) set(span trace.Span) {
	if o.errorType != "" && span.IsRecording() {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(o.attributes()...)
	}
}
