package policy

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/mcp-metatool/mcp-metatool/host/pins"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// values are the values of variables for one decision. They are read when a condition
// needs them.
type values struct {
	request   Request
	engine    *Engine // counts the calls per minute; nil: there were none
	arguments *arguments
	failed    error // of reading the arguments
	session   *snapshot
	run       *snapshot
}

// readArguments reads the arguments, once.
func (v *values) readArguments() error {
	if v.arguments == nil && v.failed == nil {
		v.arguments, v.failed = parseArguments(v.request.Arguments)
	}
	return v.failed
}

// Parent implements interpreter.Activation.
func (v *values) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (v *values) ResolveName(name string) (any, bool) {
	r := &v.request
	switch name {
	case "args":
		return v.arguments.object, true
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
	if hint, ok := annotation(r, name); ok {
		return hint, true
	}
	return v.before(name)
}

// before resolves the variables about what was called before.
func (v *values) before(name string) (any, bool) {
	if v.session == nil {
		c := callOf(&v.request)
		session, run := v.request.Caller.SessionCalls.at(c), v.request.Caller.RunCalls.at(c)
		v.session, v.run = &session, &run
	}
	listed := func(s *snapshot, list []string) (any, bool) {
		if s.full {
			return types.WrapErr(errForgotten), true
		}
		return list, true
	}
	counted := func(s *snapshot) (any, bool) {
		if s.full {
			return types.WrapErr(errForgotten), true
		}
		return s.same, true
	}
	switch name {
	case "session.called":
		return listed(v.session, v.session.called)
	case "session.servers":
		return listed(v.session, v.session.servers)
	case "session.private":
		return v.session.given.Private, true
	case "session.untrusted":
		return v.session.given.Untrusted, true
	case "run.called":
		return listed(v.run, v.run.called)
	case "run.servers":
		return listed(v.run, v.run.servers)
	case "calls.session":
		return v.session.calls, true
	case "calls.run":
		return v.run.calls, true
	case "calls.tool.session":
		return counted(v.session)
	case "calls.tool.run":
		return counted(v.run)
	case "calls.minute":
		all, _, _ := v.engine.lastMinute(&v.request)
		return all, true
	case "calls.tool.minute":
		_, same, full := v.engine.lastMinute(&v.request)
		if full {
			return types.WrapErr(errForgotten), true
		}
		return same, true
	}
	return nil, false
}

// ofTool returns text if the request is about a tool.
func ofTool(r *Request, text string) string {
	if r.Kind != KindTool {
		return ""
	}
	return text
}

// definitionDigest returns the digest of the definition as its server sent it; "" if there
// is none.
func definitionDigest(r *Request) string {
	if r.Definition == nil {
		return ""
	}
	own, err := wire.Set(r.Definition, wire.Quote(r.Name), "name") // it has the name that clients see
	if err != nil {
		return ""
	}
	return pins.Digest(own)
}

// annotation resolves a hint. Where a definition has none, it is the default of revision
// 2025-11-25 (schema, ToolAnnotations), where destructiveHint and idempotentHint only mean
// something for tools that are not read-only. Reads of resources, prompts and completions
// count as read-only.
func annotation(r *Request, name string) (hint, ok bool) {
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
	return false, false
}

// flag returns a hint of the definition, or fallback if it has none or if it is not a
// boolean.
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
