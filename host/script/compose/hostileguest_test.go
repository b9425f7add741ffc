package compose

import (
	"context"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// TestHostileGuestOfCode has a guest with calls of everything by name, for unsaved code, so that no
// permissions limit the guest: built-in tools, hidden tools, and unknown servers, by all their
// names elsewhere. Only the tools of the server are called.
func TestHostileGuestOfCode(t *testing.T) {
	servers := []string{
		"builtin", "builtins", "tools", "mcp-metatool", "mcp_metatool", "metatool", "self", "s", "S", "s ", "s__", "*", "?", ".", "..", "", "off", "s\x00",
	}
	builtins := []string{"eval_starlark", "save_tool", "delete_saved_tool", "apply_plan", "list_saved_tools", "show_run", "search_tools"}
	names := append([]string{
		"secret", "s__secret", "s.secret", "Secret", "secret ", "*", "s*", "[s]ecret", "se?ret", "", ".", "../secret", "s__make", "builtin.save_tool", "make\x00", "make__secret",
	}, builtins...)
	var entries []catalog.Entry
	for _, name := range builtins {
		entries = append(entries, catalog.Entry{Name: name, Definition: []byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)})
	}
	list := savedTools{}
	list.permit("other", "s.make()", "s.make")
	u := saga()
	u.result("s.secret", "{}")
	guest := permitSandbox{run: func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		for _, server := range servers {
			var batch []abi.ToolCall
			for _, name := range names {
				for n := range 4 {
					batch = append(batch, abi.ToolCall{Server: server, Tool: name, Exact: n&1 != 0, Raw: n&2 != 0, Arguments: []byte(`{"n":1,"code":"return 1"}`)})
				}
			}
			for i, a := range r.Caller.CallTools(ctx, batch) {
				if a.Err == nil {
					t.Errorf("%+v is answered: %s", batch[i], a.Value)
				}
				if e := r.Caller.Undo(ctx, batch[i]); e == nil {
					t.Errorf("%+v can be registered for undoing", batch[i])
				}
			}
		}
		if a := r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "make", `{"n":2}`)}); a[0].Err != nil {
			t.Errorf("what it may call is refused: %v", a[0].Err)
		}
		return ok("1")
	}}
	c := composer(guest, u, list.in)
	c.cfg.Catalog.(*catalog.Catalog).SetBuiltins(entries)
	c.Eval(t.Context(), "return 1", nil, route.Call{})
	if got := made(u); got != "make2" {
		t.Errorf("calls %s", got)
	}
}
