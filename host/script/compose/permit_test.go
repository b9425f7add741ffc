package compose

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func (l savedTools) in(o *Options) { o.Saved = l }

// permit adds a tool as saved with the given calls as permissions.
func (l savedTools) permit(name, code string, calls ...string) {
	l[name] = tools.Definition{
		Name: name, InputSchema: []byte(`{"type":"object"}`), Code: code,
		Permissions: &tools.Permissions{Calls: calls, Code: tools.CodeDigest(code)},
	}
}

// bound narrows a tool.
func (l savedTools) bound(name string, bounds ...string) {
	d := l[name]
	p := *d.Permissions
	p.Bounds = bounds
	d.Permissions = &p
	l[name] = d
}

// TestPermit calls saved tools whose stored permissions lack the tools' calls, for any reason. In
// the sandbox everything is as usual.
func TestPermit(t *testing.T) {
	list := savedTools{}
	list.permit("fine", "return s.make(n=1)", "s.make")
	list.permit("whole", "return s[params.t](n=1)", "s.*")
	list.permit("shrunk", "return s.make(n=1)", "s.remove") // a person has changed the list in the file
	list.permit("computed", "return s[params.t](n=1)", "s.make")
	list.permit("caught", "try:\n    s.remove(n=1)\nexcept:\n    pass\nfinally:\n    s.make(n=9)\nreturn s.make(n=2)", "s.make")
	list.permit("bound", "return s[params.t](n=1)", "s.*")
	list.bound("bound", "s.make")
	list.permit("edited", "return s.make(n=1)", "s.make")
	edited := list["edited"]
	edited.Code = "return s.remove(n=1)" // by hand, with the permissions of the old code
	list["edited"] = edited
	list.permit("edited-bound", "return s.make(n=1)", "s.make")
	list.bound("edited-bound", "s.make")
	edited = list["edited-bound"]
	edited.Code = "return s.remove(n=1)"
	list["edited-bound"] = edited
	list.permit("plain", "return s.remove(n=1)")
	plain := list["plain"]
	plain.Permissions = nil // from an earlier program
	list["plain"] = plain
	list.permit("wide", "return s.make(n=1)", "s.*", "t.*") // widened in the file
	list.permit("undoes", "s.make(n=1)\nundo(s.remove, n=2)\nfail('x')", "s.make")
	list.permit("undoes-fine", "s.make(n=1)\nundo(s.remove, n=2)\nfail('x')", "s.make", "s.remove")
	list.permit("raw", "return s.remove.raw(n=1)", "s.make")
	list.permit("parallel", "return parallel_map(lambda f: f(n=1), [s.make, s.remove], errors='collect')", "s.make")
	// Callers of other saved tools.
	list.permit("calls-fine", "return tools.fine()", "tools.fine", "s.make")
	list.permit("calls-changed", "return tools.fine()", "tools.fine")
	list.permit("calls-bound", "return tools.whole({'t': params.t})", "tools.whole", "s.*")
	list.bound("calls-bound", "tools.whole", "s.make")
	list.permit("calls-calls", "return tools['calls-changed']()", "tools.calls-changed", "s.make")
	list.permit("calls-plain", "return tools.plain()", "tools.plain", "s.make")
	list.permit("calls-nobody", "return tools.fine()", "s.make")
	list.permit("calls-undo", "return tools['undoes-fine']()", "tools.undoes-fine", "s.make")
	for _, c := range []struct{ name, params, calls, refused string }{
		{"fine", `{}`, "make1", ""},
		{"whole", `{"t":"remove"}`, "remove1", ""},
		{"shrunk", `{}`, "", `saved tool "shrunk" may not call s.make: it could call only s.remove when it was saved`},
		{"computed", `{"t":"make"}`, "make1", ""},
		{"computed", `{"t":"remove"}`, "", `may not call s.remove: it could call only s.make`},
		{"caught", `{}`, "", `may not call s.remove`},
		{"bound", `{"t":"make"}`, "make1", ""},
		{"bound", `{"t":"remove"}`, "", `it was narrowed to s.make`},
		{"edited", `{}`, "remove1", ""},
		{"edited-bound", `{}`, "", `it was narrowed to s.make`},
		{"plain", `{}`, "remove1", ""},
		{"wide", `{}`, "make1", ""},
		{"undoes", `{}`, "make1", `may not call s.remove`},
		{"undoes-fine", `{}`, "make1 remove2", ""},
		{"raw", `{}`, "", `may not call s.remove`},
		{"parallel", `{}`, "make1", `may not call s.remove`},
		{"calls-fine", `{}`, "make1", ""},
		{"calls-changed", `{}`, "", `saved tool "fine" may not call s.make: saved tool "calls-changed", which led to the call, could call only tools.fine when it was saved`},
		{"calls-bound", `{"t":"make"}`, "make1", ""},
		{"calls-bound", `{"t":"remove"}`, "", `saved tool "calls-bound", which led to the call, was narrowed to`},
		{"calls-calls", `{}`, "", `"calls-calls"`},
		{"calls-plain", `{}`, "", `saved tool "plain" may not call s.remove: saved tool "calls-plain"`},
		{"calls-nobody", `{}`, "", `may not call tools.fine`},
		{"calls-undo", `{}`, "make1", `may not call s.remove`},
	} {
		u := saga()
		reply := composer(sandboxtest.Guest(t), u, list.in).CallSaved(t.Context(), list[c.name], route.Call{Params: params(c.params)})
		if got := made(u); got != c.calls {
			t.Errorf("%s %s: calls %q, want %q (%s)", c.name, c.params, got, c.calls, reply.Result)
		}
		class := get(t, reply, "structuredContent", "error", "type")
		if c.refused == "" {
			if class == `"permission"` {
				t.Errorf("%s %s: %s", c.name, c.params, reply.Result)
			}
			continue
		}
		if message := get(t, reply, "structuredContent", "error", "message"); class != `"permission"` || !strings.Contains(strings.ReplaceAll(message, `\"`, `"`), c.refused) {
			t.Errorf("%s %s: %s %s\nwant %s", c.name, c.params, class, message, c.refused)
		}
	}
}

// TestHostileGuest has a guest with calls missing in the script, in all ways that a guest can. The
// host refuses every call, although the stored permissions are for a tool that may call everything.
func TestHostileGuest(t *testing.T) {
	calls := []abi.ToolCall{
		toolCall("s", "remove", `{"n":1}`), {Server: "s", Tool: "make", Exact: true, Arguments: []byte(`{"n":1}`)},
		{Server: "s", Tool: "remove", Raw: true, Arguments: []byte(`{"n":1}`)}, toolCall("tools", "other", `{}`), toolCall("S", "make", `{}`),
		toolCall("s", "", `{}`), toolCall("", "make", `{}`), toolCall("s", "*", `{}`), toolCall("s", "mаke", `{"n":1}`), // with a Cyrillic letter
	}
	for i, call := range calls {
		u := saga()
		list := savedTools{}
		list.permit("job", "s.make()", "s.*", "tools.*")
		list.permit("other", "s.make()", "s.*")
		guest := permitSandbox{run: func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			answers := r.Caller.CallTools(ctx, []abi.ToolCall{call})
			if e := answers[0].Err; e == nil || e.Type != abi.ErrPermission && e.Type != abi.ErrRuntime {
				t.Errorf("call %d: %+v", i, answers[0])
			}
			if e := r.Caller.Undo(ctx, call); e == nil {
				t.Errorf("call %d can be registered for undoing", i)
			}
			return ok("1")
		}}
		composer(guest, u, list.in).CallSaved(t.Context(), list["job"], route.Call{Params: params(`{}`)})
		if got := made(u); got != "" {
			t.Errorf("call %d: %s", i, got)
		}
	}
}

// permitSandbox finds that scripts call s.make, and runs another function.
type permitSandbox struct {
	fakeSandbox
	run func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error)
}

func (s permitSandbox) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	if r.Request.Op == abi.OpLint {
		return ok(`{"derived":true,"reach":[{"server":"s","tool":"make"}]}`)
	}
	return s.run(ctx, r)
}

// TestEvalIsNotLimited checks that only saved tools have permissions, also below unsaved code.
func TestEvalIsNotLimited(t *testing.T) {
	list := savedTools{}
	list.permit("shrunk", "return s.make(n=1)", "s.remove")
	for code, want := range map[string]string{"return s['remove'](n=1)": "remove1", "return tools.shrunk()": ""} {
		u := saga()
		composer(sandboxtest.Guest(t), u, list.in).Eval(t.Context(), code, nil, route.Call{})
		if got := made(u); got != want {
			t.Errorf("%s: %q", code, got)
		}
	}
}

// TestPermissionsAreDerivedOnce checks that scripts are analysed once, and again when the servers
// change.
func TestPermissionsAreDerivedOnce(t *testing.T) {
	u := saga()
	analysed := 0
	guest := sandboxtest.Guest(t)
	count := countingSandbox{Sandbox: guest, lints: &analysed}
	c := composer(count, u)
	def := saved("return s.make(n=1)")
	for range 3 {
		c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
	}
	if analysed != 1 || made(u) != "make1 make1 make1" {
		t.Errorf("analysed %d times, calls %s", analysed, made(u))
	}
	c.cfg.Catalog.(*catalog.Catalog).SetSources([]catalog.Source{
		{Server: "s", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }},
		{Server: "new", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }},
	})
	c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
	if analysed != 2 {
		t.Errorf("analysed %d times", analysed)
	}
}

type countingSandbox struct {
	Sandbox
	lints *int
}

func (s countingSandbox) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	if r.Request.Op == abi.OpLint {
		*s.lints++
	}
	return s.Sandbox.Run(ctx, r)
}

// TestToolsThatAppear checks names without a tool at the time of saving, and with a tool later.
func TestToolsThatAppear(t *testing.T) {
	u := saga()
	c := composer(sandboxtest.Guest(t), u)
	def := saved("return s.new_tool(n=1)")
	p, wrong, err := c.Permissions(t.Context(), def)
	if err != nil || wrong != nil || p.Calls != nil || !slices.Equal(p.Unresolved, []string{"s.new_tool"}) {
		t.Fatal(p, wrong, err)
	}
	def.Permissions = p
	appear := func(names ...string) {
		var list [][]byte
		for _, n := range names {
			list = append(list, []byte(`{"name":"`+n+`"}`))
			u.result("s."+n, `{}`)
		}
		c.cfg.Catalog.(*catalog.Catalog).SetUpstream("s", wire.Tools, list, nil)
	}
	call := func() { c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)}) }
	call()
	appear("new-tool", "new.tool") // the name is ambiguous
	call()
	if made(u) != "" {
		t.Fatal(made(u))
	}
	appear("new-tool")
	call()
	if made(u) != "new-tool1" {
		t.Error(made(u))
	}
	// Saved again, the name refers to this tool, and to no other tool with the same script name.
	if p, _, err = c.Permissions(t.Context(), def); err != nil || !slices.Equal(p.Calls, []string{"s.new-tool"}) {
		t.Fatal(p, err)
	}
	def.Permissions = p
	appear("new_tool")
	call()
	if made(u) != "new-tool1" {
		t.Error("another tool under the same script name was called: " + made(u))
	}
}
