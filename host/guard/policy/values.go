package policy

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Values are the values of variables for a decision. A value is read when a condition needs it.
type Values struct {
	request   Request
	engine    *Engine // counts the calls per minute; nil: no calls
	arguments *Arguments
	failed    error // of reading the arguments
	session   *snapshot
	run       *snapshot
}

// Arguments returns the arguments of the request. The error is a Failure.
func (v *Values) Arguments() (*Arguments, error) {
	if v.arguments == nil && v.failed == nil {
		v.arguments, v.failed = ParseArguments(v.request.Arguments)
	}
	return v.arguments, v.failed
}

// Variable returns the value of a variable other than args. known reports whether the variable
// exists. The error is a Failure.
func (v *Values) Variable(name string) (value any, known bool, err error) {
	value, known = v.ofRequest(name)
	if !known {
		value, known, err = v.before(name)
	}
	return value, known, err
}

// ofRequest resolves the variables about the request.
func (v *Values) ofRequest(name string) (any, bool) {
	r := &v.request
	switch name {
	case "kind":
		return string(r.Kind), true
	case "target":
		return r.Target(), true
	case "server":
		return r.Server, true
	case "name":
		return r.Name, true
	case "tool.name":
		return ofTool(r, r.Name), true
	case "tool.server":
		return ofTool(r, r.Server), true
	case "tool.digest":
		return definitionDigest(r), true
	case "tool.annotations.title":
		title, _ := wire.GetString(r.Definition, "annotations", "title")
		return title, true
	case "client":
		return r.Caller.Client, true
	case "client.token":
		return r.Caller.Token, true
	case "script":
		return r.Caller.Script, true
	}
	return annotation(r, name)
}

// before resolves the variables about earlier calls.
func (v *Values) before(name string) (value any, known bool, err error) {
	if v.session == nil {
		c := callOf(&v.request)
		session, run := v.request.Caller.SessionCalls.at(c), v.request.Caller.RunCalls.at(c)
		v.session, v.run = &session, &run
	}
	// remembered returns a value, or a failure if the calls were too many to remember.
	remembered := func(full bool, value any) (any, bool, error) {
		if full {
			return nil, true, errForgotten
		}
		return value, true, nil
	}
	switch name {
	case "session.called":
		return remembered(v.session.full, v.session.called)
	case "session.servers":
		return remembered(v.session.full, v.session.servers)
	case "session.private":
		return v.session.given.Private, true, nil
	case "session.untrusted":
		return v.session.given.Untrusted, true, nil
	case "run.called":
		return remembered(v.run.full, v.run.called)
	case "run.servers":
		return remembered(v.run.full, v.run.servers)
	case "calls.session":
		return v.session.calls, true, nil
	case "calls.run":
		return v.run.calls, true, nil
	case "calls.tool.session":
		return remembered(v.session.full, v.session.same)
	case "calls.tool.run":
		return remembered(v.run.full, v.run.same)
	case "calls.minute":
		all, _, _ := v.engine.lastMinute(&v.request)
		return all, true, nil
	case "calls.tool.minute":
		_, same, full := v.engine.lastMinute(&v.request)
		return remembered(full, same)
	}
	return nil, false, nil
}

// ofTool returns text if the request is about a tool.
func ofTool(r *Request, text string) string {
	if r.Kind != KindTool {
		return ""
	}
	return text
}

// definitionDigest returns the digest of the definition as its server sent it; "" without a
// definition.
func definitionDigest(r *Request) string {
	if r.Definition == nil {
		return ""
	}
	own, err := wire.Set(r.Definition, wire.Quote(r.Name), "name") // the definition has the name for clients
	if err != nil {
		return ""
	}
	return pins.Digest(own)
}

// annotation resolves a hint. A missing hint has the default of revision 2025-11-25 (schema,
// ToolAnnotations), where destructiveHint and idempotentHint are defined only for tools that are
// not read-only. Reads of resources, prompts and completions count as read-only.
func annotation(r *Request, name string) (hint any, ok bool) {
	read := r.Kind == KindResource || r.Kind == KindPrompt || r.Kind == KindCompletion
	readOnly := flag(r, "readOnlyHint", read)
	switch name {
	case "tool.annotations.readOnlyHint":
		return readOnly, true
	case "tool.annotations.destructiveHint":
		return flag(r, "destructiveHint", true) && !readOnly, true
	case "tool.annotations.idempotentHint":
		return flag(r, "idempotentHint", false) || readOnly, true
	case "tool.annotations.openWorldHint":
		return flag(r, "openWorldHint", true), true
	}
	return nil, false
}

// flag returns a hint of the definition, or fallback without a boolean hint.
func flag(r *Request, hint string, fallback bool) bool {
	if r.Kind != KindTool {
		return fallback
	}
	switch raw, _ := wire.Get(r.Definition, "annotations", hint); string(raw) {
	case "true":
		return true
	case "false":
		return false
	}
	return fallback
}
