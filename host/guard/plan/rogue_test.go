package plan_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// rogue is a sandbox whose guest does not obey the contract: when an answer ends the plan, it
// goes on.
type rogue struct {
	t      *testing.T
	result string
}

func (rogue) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (rogue) Compute(ctx context.Context, name string, account *sandbox.Account) *sandbox.Compute {
	return new(sandbox.Sandbox).Compute(ctx, name, account)
}

func (g rogue) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	if r.Request.Op == abi.OpLint {
		result, err := json.Marshal(abi.Lint{Derived: true, Reach: []abi.Reached{{Server: "s"}, {Server: abi.Composites}}})
		return sandbox.Outcome{Result: result}, err
	}
	call := func(server, tool string, caught bool) abi.Answer {
		return r.Caller.CallTools(ctx, []abi.ToolCall{{Server: server, Tool: tool, Caught: caught, Arguments: []byte(`{"n":1}`)}})[0]
	}
	first := call("s", "put", true)
	answers := []abi.Answer{first, call("s", "get", false), call("s", "put", false), call(abi.Composites, "part", false)}
	for i, a := range answers {
		if r.Request.Withheld != "" && (a.Err == nil || a.Err.Type != abi.ErrWithheld) {
			g.t.Errorf("answer %d after the end of the plan: %s, %+v", i, a.Value, a.Err)
		}
	}
	if failed := r.Caller.Undo(ctx, abi.ToolCall{Server: "s", Tool: "drop", Arguments: []byte(`{}`)}); failed == nil || failed.Type != abi.ErrWithheld {
		g.t.Errorf("an undo after the end of the plan: %+v", failed)
	}
	r.Caller.Commit()
	return sandbox.Outcome{Result: []byte(g.result)}, nil
}

// TestGuestThatGoesOn checks that the plan of a guest that goes on where it must end has no
// more than that of another, that it gets no more answers, and that nothing is called.
func TestGuestThatGoesOn(t *testing.T) {
	w := newWorld(t, rogue{t, `"done"`}, library{"part": {Name: "part", Code: "return 1", InputSchema: json.RawMessage(`{"type":"object"}`)}})
	w.rng, w.record = rand.New(rand.NewPCG(1, 1)), true
	file, _, f := w.Make(t.Context(), plan.Subject{Code: "return 1", Params: []byte(`{}`)}, route.Call{})
	if f != nil {
		t.Fatal(f.Text())
	}
	p := &file.Plan
	if len(p.Steps) != 1 || p.Count() != 1 || p.Open == nil || p.Result != nil || len(w.made) > 0 {
		t.Errorf("%+v\nresult %s, made %q", p.Steps, p.Result, w.made)
	}
}
