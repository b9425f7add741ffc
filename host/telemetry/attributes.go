package telemetry

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// The attributes of the conventions.
const (
	keyMethod          = attribute.Key("mcp.method.name")
	keySession         = attribute.Key("mcp.session.id")
	keyRevision        = attribute.Key("mcp.protocol.version")
	keyResource        = attribute.Key("mcp.resource.uri")
	keyTool            = attribute.Key("gen_ai.tool.name")
	keyPrompt          = attribute.Key("gen_ai.prompt.name")
	keyOperation       = attribute.Key("gen_ai.operation.name")
	keyRequestID       = attribute.Key("jsonrpc.request.id")
	keyStatusCode      = attribute.Key("rpc.response.status_code")
	keyErrorType       = attribute.Key("error.type")
	keyTransport       = attribute.Key("network.transport")
	keyNetworkProtocol = attribute.Key("network.protocol.name")
	keyServerAddress   = attribute.Key("server.address")
	keyServerPort      = attribute.Key("server.port")
)

// Our own attributes.
const (
	keyUpstream = attribute.Key("mcp_metatool.upstream.name")

	keyStoreOperation = attribute.Key("mcp_metatool.store.operation.name")
	keyReplicaState   = attribute.Key("mcp_metatool.fleet.replica.state")
	keyWork           = attribute.Key("mcp_metatool.fleet.work.kind")
	keyRun            = attribute.Key("mcp_metatool.run.id")
	keyRunFuel        = attribute.Key("mcp_metatool.run.fuel")
	keyRunMemory      = attribute.Key("mcp_metatool.run.memory")
	keyRunCalls       = attribute.Key("mcp_metatool.run.calls")
)

// executeTool is the value of keyOperation for calls of tools.
const executeTool = "execute_tool"

// otherMethod stands for all unknown methods in metrics and names of spans, since clients can
// invent names.
const otherMethod = "_OTHER"

// network is how messages are transported.
type network []attribute.KeyValue

var (
	overPipe = network{keyTransport.String("pipe")}
	overHTTP = network{keyTransport.String("tcp"), keyNetworkProtocol.String("http")}
)

// target is the subject of a request.
type target struct {
	method string        // as in the request
	name   string        // of the tool or prompt; "" for none
	key    attribute.Key // of name
	uri    string        // of the resource, without secret parts; "" for none
}

// targetOf returns the subject of a request.
func targetOf(method string, params []byte) target {
	t := target{method: method}
	switch method {
	case protocol.MethodToolsCall:
		t.key = keyTool
	case protocol.MethodPromptsGet:
		t.key = keyPrompt
	case protocol.MethodResourcesRead, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe:
		uri, _ := wire.GetString(params, "uri")
		t.uri = withoutSecrets(uri)
	}
	if t.key != "" {
		t.name, _ = wire.GetString(params, "name")
	}
	return t
}

// withoutSecrets returns a URI without credentials, query and fragment; "" for a URI without a
// path.
func withoutSecrets(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Opaque != "" { // such as data:, whose path is the content
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}

// common returns the method, or otherMethod for a method that the sender has in no revision.
func (t target) common(sender protocol.Party) string {
	if _, known := protocol.FindMethod(sender, t.method); known {
		return t.method
	}
	return otherMethod
}

// span returns the attributes of spans.
func (t target) span() []attribute.KeyValue {
	all := []attribute.KeyValue{keyMethod.String(t.method)}
	if t.name != "" {
		all = append(all, t.key.String(t.name))
	}
	if t.key == keyTool {
		all = append(all, keyOperation.String(executeTool))
	}
	if t.uri != "" {
		all = append(all, keyResource.String(t.uri))
	}
	return all
}

// metric returns the attributes of metrics, given the method for them. named includes the
// name of the tool or prompt, masked.
func (t target) metric(method string, named bool, mask func(text string) string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 12)
	all = append(all, keyMethod.String(method))
	if named && t.name != "" {
		all = append(all, t.key.String(mask(t.name)))
	}
	if t.key == keyTool {
		all = append(all, keyOperation.String(executeTool))
	}
	return all
}

// requestID returns the attribute for a raw id of a request; none for null.
func requestID(raw []byte) []attribute.KeyValue {
	if text, ok := wire.Text(raw); ok {
		return []attribute.KeyValue{keyRequestID.String(text)}
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return []attribute.KeyValue{keyRequestID.String(string(raw))}
}

// serverOf returns the attributes for the address of a server; none without an address.
func serverOf(address string) []attribute.KeyValue {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	all := []attribute.KeyValue{keyServerAddress.String(u.Hostname())}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := net.LookupPort("tcp", port); err == nil {
		all = append(all, keyServerPort.Int(n))
	}
	return all
}

// number returns an id of ours as an attribute.
func number(id int64) attribute.KeyValue { return keyRequestID.String(strconv.FormatInt(id, 10)) }

// The members of params._meta that hold the trace context. They have no prefix (MCP SEP-414;
// revision 2026-07-28, basic, _meta). baggage, the third member, is forwarded unchanged.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// maxContext bounds the parsed size of a client's trace context, in bytes.
const maxContext = 4096

var w3c = propagation.TraceContext{}

// metaCarrier is the trace context of a request. metaCarrier implements propagation.TextMapCarrier.
type metaCarrier struct{ parent, state string }

// Get implements propagation.TextMapCarrier.
func (c *metaCarrier) Get(key string) string {
	switch key {
	case traceparent:
		return c.parent
	case tracestate:
		return c.state
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *metaCarrier) Set(key, value string) {
	switch key {
	case traceparent:
		c.parent = value
	case tracestate:
		c.state = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (c *metaCarrier) Keys() []string { return []string{traceparent, tracestate} }

// extract returns ctx with the trace context of a request, if valid.
func extract(ctx context.Context, params []byte) context.Context {
	meta, ok := wire.Get(params, "_meta")
	if !ok {
		return ctx
	}
	var c metaCarrier
	c.parent, _ = wire.GetString(meta, traceparent)
	if c.parent == "" || len(c.parent) > maxContext {
		return ctx
	}
	if c.state, _ = wire.GetString(meta, tracestate); len(c.state) > maxContext {
		c.state = ""
	}
	return w3c.Extract(ctx, &c)
}

// inject returns params with the trace context of ctx. All other members stay unchanged. Params
// that cannot hold a trace context are returned unchanged.
func inject(ctx context.Context, params []byte) []byte {
	var c metaCarrier
	w3c.Inject(ctx, &c)
	if c.parent == "" {
		return params
	}
	out := params
	if out == nil {
		out = []byte("{}")
	}
	out, err := wire.Set(out, wire.Quote(c.parent), "_meta", traceparent)
	if err != nil {
		return params
	}
	before, has := wire.GetString(out, "_meta", tracestate)
	switch {
	case c.state == before:
		return out
	case c.state != "":
		out, err = wire.Set(out, wire.Quote(c.state), "_meta", tracestate)
	case has:
		out, err = wire.Delete(out, "_meta", tracestate) // of another trace
	}
	if err != nil {
		return params
	}
	return out
}

// spanned is a request of a client with a span; see front.request and stateless.Exchange.
type spanned interface{ Span() rpc.Span }

// beneath returns ctx with the parent span of work on behalf of owner: the span in ctx, or the span
// of owner, if owner is a request with a span.
func beneath(ctx context.Context, owner any) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if o, ok := owner.(spanned); ok {
		if r, ok := o.Span().(*served); ok {
			return trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(r.ctx))
		}
	}
	return ctx
}

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
