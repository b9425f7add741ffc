package route

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// stateTTL is how long a client may take to repeat a request with the answers for an upstream.
const stateTTL = time.Hour

// mayAsk are the methods whose results can ask the client questions (revision 2026-07-28,
// basic/patterns/mrtr, "Supported Requests").
var mayAsk = []string{protocol.MethodToolsCall, protocol.MethodPromptsGet, protocol.MethodResourcesRead}

// isStateless reports whether a request is of the stateless era. A nil origin is not.
func isStateless(o Origin) bool { return o != nil && o.Revision().Has(protocol.InputRequests) }

// receive prepares a request for routing: for a request of the stateless era, the envelope and the
// answers to questions of an upstream are taken out of the params. The link with the upstream adds
// the members for the upstream's era.
func (r *Router) receive(call Call) (Call, *wire.RPCError) {
	if !isStateless(call.Origin) {
		return call, nil
	}
	call.sent = call.Params
	params, err := envelope.Remove(call.Params)
	if protocol.IsTaskRequest(call.Method) { // the answers in the request are for the task
		if err != nil {
			return call, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
		}
		call.Params = params
		return call, nil
	}
	if bad := r.readInputs(&call); bad != nil {
		return call, bad
	}
	for _, name := range []string{"inputResponses", "requestState"} {
		if err == nil && params != nil {
			params, err = wire.Delete(params, name)
		}
	}
	if err != nil {
		return call, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	call.Params = params
	return call, nil
}

// readInputs reads the answers of the client to the questions of an upstream or a composite tool.
func (r *Router) readInputs(call *Call) *wire.RPCError {
	responses, asked := wire.Get(call.Params, "inputResponses")
	state, continued := wire.Get(call.Params, "requestState")
	if asked && !wire.IsObject(responses) {
		return wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses must be an object", call.Method)
	}
	call.inputs.Responses = responses
	if !continued {
		return nil
	}
	text, ok := wire.Text(state)
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "%s: params.requestState must be a string", call.Method)
	}
	opened, err := r.Sealer.OpenState(r.binding(*call), text)
	kind, inner := opened.Kind, opened.Payload
	switch {
	case err != nil:
	case kind == requeststate.Relay:
		if len(inner) > 0 {
			call.inputs.State = inner
		}
		return nil
	case kind == requeststate.Run && call.Method == protocol.MethodToolsCall:
		members, _ := wire.Members(responses)
		for _, m := range members {
			if !wire.IsObject(m.Value) {
				return wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses: the answer %.64q must be an object", call.Method, m.Name)
			}
		}
		call.Resume = &Resume{Run: string(inner), Responses: responses, Elsewhere: r.describe(opened.Home)}
		return nil
	case kind == requeststate.Visit:
		call.visits = string(inner)
		return nil
	}
	return invalidState(call.Method)
}

// invalidState returns the error for an invalid requestState, the same for all reasons.
func invalidState(method string) *wire.RPCError {
	return wire.Errorf(wire.CodeInvalidParams, "%s: %v", method, requeststate.ErrInvalid)
}

// binding returns the binding of a requestState to a request.
func (r *Router) binding(call Call) requeststate.Binding {
	return requeststate.Binding{Principal: call.Origin.Session().Principal(), Method: call.Method, Params: call.sent}
}

// adapt makes a reply fit the era of the asking client. Replies of upstreams of the client's era
// are right already, except for the upstream's requestState. The front end adds the members that
// every result of the stateless era has.
func (r *Router) adapt(call Call, reply wire.Reply) wire.Reply {
	stateless := isStateless(call.Origin)
	switch {
	case reply.Own, !stateless && !reply.Stateless:
		return reply
	case reply.Error != nil:
		return r.adaptError(call, reply, stateless)
	case stateless && reply.Stateless:
		return r.relay(call, reply)
	case stateless:
		// A result that is no object is refused when the other members are added.
		if result, err := envelope.FromHandshake(reply.Result); err == nil {
			reply.Result = result
		}
		return reply
	}
	return legacyResult(call, reply)
}

// relay passes on a result of an upstream of the stateless era to a client of the stateless era.
// The client gets a requestState that no other client can use.
func (r *Router) relay(call Call, reply wire.Reply) wire.Reply {
	switch resultType(reply) {
	case envelope.TypeInputRequired:
	case envelope.TypeTask:
		return fail(wire.CodeInternal, "%s: the server answered with a task, which it must not for this method", call.Method)
	default:
		return reply
	}
	if !slices.Contains(mayAsk, call.Method) {
		return fail(wire.CodeInternal, "%s: the server asks the client something, which it must not for this method", call.Method)
	}
	inner, _ := wire.Get(reply.Result, "requestState")
	return r.sealReply(call, reply, requeststate.Relay, inner)
}

// sealRun seals the requestState of a composite tool that asks the client: the id of the run. The
// reply of a tool without questions is returned unchanged.
func (r *Router) sealRun(call Call, reply wire.Reply) wire.Reply {
	if !asks(reply) {
		return reply
	}
	run, _ := wire.GetString(reply.Result, "requestState")
	reply = r.sealReply(call, reply, requeststate.Run, []byte(run))
	reply.Own = true // so that the state is not sealed again
	return reply
}

// sealReply sets the requestState of a result.
func (r *Router) sealReply(call Call, reply wire.Reply, kind requeststate.Kind, inner []byte) wire.Reply {
	state, err := r.Sealer.SealHere(kind, r.binding(call), inner, stateTTL)
	if err != nil {
		return fail(wire.CodeInternal, "%s: requestState: %v", call.Method, err)
	}
	result, err := wire.Set(reply.Result, wire.Quote(state), "requestState")
	if err != nil {
		return fail(wire.CodeInternal, "%s: malformed answer: %v", call.Method, err)
	}
	reply.Result = result
	return reply
}

// asks reports whether a result of the stateless era asks the client something.
func asks(reply wire.Reply) bool { return resultType(reply) == envelope.TypeInputRequired }

// isTask reports whether a result of the stateless era is a task.
func isTask(reply wire.Reply) bool { return resultType(reply) == envelope.TypeTask }

// resultType returns the type of a result of the stateless era. Other replies have none.
func resultType(reply wire.Reply) string {
	if !reply.Stateless || reply.Result == nil {
		return ""
	}
	kind, _ := envelope.ResultType(reply.Result)
	return kind
}

// legacyResult removes the members from a result that the handshake era does not have.
func legacyResult(call Call, reply wire.Reply) wire.Reply {
	kind, ok := envelope.ResultType(reply.Result)
	if !ok || kind != envelope.TypeComplete {
		return fail(wire.CodeInternal, "%s: the server answered with resultType %.64q, which it must not", call.Method, kind)
	}
	result, err := envelope.Legacy(reply.Result)
	if err == nil && call.Method == protocol.MethodToolsCall && !call.Origin.Revision().Has(protocol.StructuredValues) {
		result, err = withoutValue(result)
	}
	if err != nil {
		return fail(wire.CodeInternal, "%s: malformed answer: %v", call.Method, err)
	}
	reply.Result = result
	return reply
}

// withoutValue removes structuredContent that is not an object from the result of a tool, and puts
// the value into the text of the result, unless the text has the value already (revision
// 2026-07-28, server/tools, "Structured Content").
func withoutValue(result []byte) ([]byte, error) {
	value, ok := wire.Get(result, "structuredContent")
	if !ok || wire.IsObject(value) {
		return result, nil
	}
	rest, err := wire.Delete(result, "structuredContent")
	if err != nil {
		return nil, err
	}
	content, _ := wire.Get(rest, "content")
	blocks, _ := wire.Elements(content) // content other than a list has no block that a client could read
	for _, block := range blocks {
		if text, ok := wire.GetString(block, "text"); ok && says(text, value) {
			return rest, nil
		}
	}
	blocks = append(blocks, wire.Marshal(textBlock{"text", string(value)}))
	return wire.Set(rest, wire.Array(blocks), "content")
}

// says reports whether a text is a raw value: as JSON, or just the text of a string.
func says(text string, value []byte) bool {
	if own, ok := wire.Text(value); ok && own == text {
		return true
	}
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	a, b := jsontext.NewDecoder(strings.NewReader(text), options...), jsontext.NewDecoder(bytes.NewReader(value), options...)
	for {
		x, err := a.ReadToken()
		x = x.Clone()
		y, err2 := b.ReadToken()
		switch {
		case err != nil || err2 != nil:
			return err == io.EOF && err2 == io.EOF
		case x.Kind() != y.Kind() || x.String() != y.String():
			return false
		}
	}
}

// adaptError translates the codes of errors that the eras do not share. Errors about the hop
// between us and the upstream do not concern the client's request.
func (r *Router) adaptError(call Call, reply wire.Reply, stateless bool) wire.Reply {
	bad := wire.ParseError(reply.Error)
	switch bad.Code {
	case protocol.CodeHeaderMismatch, protocol.CodeUnsupportedVersion:
		if !reply.Stateless { // in the handshake era, these codes can have any meaning
			return changeCode(reply, wire.CodeInternal)
		}
		return fail(wire.CodeInternal, "%s: the server refused our request: %s", call.Method, bad.Message)
	case protocol.CodeMissingCapability:
		if !reply.Stateless {
			return changeCode(reply, wire.CodeInternal)
		}
		if stateless {
			return reply // we told the server exactly what the client declares
		}
		required, _ := wire.Get(bad.Data, "requiredCapabilities")
		text := "the server needs something of the client that this client does not offer: " + excerpt(required)
		if call.Method == protocol.MethodToolsCall {
			return wire.Reply{Result: ErrorResult(text)}
		}
		return fail(wire.CodeInternal, "%s: %s", call.Method, text)
	case protocol.CodeResourceNotFound:
		if stateless {
			return changeCode(reply, wire.CodeInvalidParams)
		}
	case protocol.CodeURLElicitationRequired:
		if stateless {
			return r.askForVisit(call, bad)
		}
	}
	return reply
}

// changeCode replaces the code of an error.
func changeCode(reply wire.Reply, code int) wire.Reply {
	if changed, err := wire.Set(reply.Error, wire.Marshal(code), "code"); err == nil {
		reply.Error = changed
	}
	return reply
}
