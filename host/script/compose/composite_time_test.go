package compose

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// slowUpstreams take some time to answer.
type slowUpstreams struct {
	*upstreams
	takes time.Duration
}

func (u slowUpstreams) CallUpstream(ctx context.Context, _ route.Origin, _ route.ScriptCall) wire.Reply {
	timer := time.NewTimer(u.takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return wire.Reply{Result: []byte(`{"content":[]}`)}
}

// TestNestedRunsShareTime checks that nested saved tools have a single time limit: the limit of the
// tool called by the client, however deep they are, and how often they are called. Each tool has
// its own limit, too.
func TestNestedRunsShareTime(t *testing.T) {
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		takes, ends time.Duration // of each call, and of all
		failed      string
	}{
		"many calls":    {3 * time.Second, limit, "the script ran longer than 10s"},
		"one long call": {time.Hour, limit, "the script ran longer than 10s"},
		"in time":       {time.Second, 8 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := saga()
				// Each tool calls the tool below twice, and the last tool calls the server.
				below := map[string]abi.ToolCall{"a": toolCall("tools", "b", `{}`), "b": toolCall("tools", "c", `{}`), "c": toolCall("s", "make", `{}`)}
				list := savedTools{}
				list.permit("a", "tools.b()", "tools.b", "tools.c", "s.make")
				list.permit("b", "tools.c()", "tools.c", "s.make")
				list.permit("c", "s.make()", "s.make")
				guest := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
					for range 2 {
						if a := r.Caller.CallTools(ctx, []abi.ToolCall{below[r.Request.Name]}); a[0].Err != nil {
							return sandbox.Outcome{Err: &abi.Error{Type: a[0].Err.Type, Message: a[0].Err.Message}}, nil
						}
					}
					return ok("1")
				})
				co := composer(guest, u, list.in, func(o *Options) { o.Timeout, o.Upstreams = limit, slowUpstreams{u, c.takes} })
				start := time.Now()
				reply := co.CallSaved(t.Context(), list["a"], route.Call{Params: params(`{}`)})
				if took := time.Since(start); took != c.ends {
					t.Errorf("it took %v, want %v", took, c.ends)
				}
				if got := get(t, reply, "structuredContent", "error", "message"); (got == "") != (c.failed == "") || !strings.Contains(got, c.failed) {
					t.Errorf("ended with %s", reply.Result)
				}
			})
		})
	}
}

// slowGate permits every call after some time.
type slowGate struct{ takes time.Duration }

func (g slowGate) Pass(ctx context.Context, _ route.Origin, _ route.ScriptCall) error {
	timer := time.NewTimer(g.takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// TestTimeoutCountsOnce checks that the timeout of a call of a saved tool is a single time for the
// decision about the call and for the run of the tool.
func TestTimeoutCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := saga()
		list := savedTools{}
		list.permit("a", "tools.b()", "tools.b", "s.make")
		list.permit("b", "s.make()", "s.make")
		call := toolCall("tools", "b", `{}`)
		call.Timeout = 10
		below := map[string]abi.ToolCall{"a": call, "b": toolCall("s", "make", `{}`)}
		guest := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			if a := r.Caller.CallTools(ctx, []abi.ToolCall{below[r.Request.Name]}); a[0].Err != nil {
				return sandbox.Outcome{Err: &abi.Error{Type: a[0].Err.Type, Message: a[0].Err.Message}}, nil
			}
			return ok("1")
		})
		co := composer(guest, u, list.in, func(o *Options) {
			o.Timeout, o.Gate, o.Upstreams = time.Minute, slowGate{6 * time.Second}, slowUpstreams{u, 6 * time.Second}
		})
		start := time.Now()
		reply := co.CallSaved(t.Context(), list["a"], route.Call{Params: params(`{}`)})
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it took %v, want 10s", took)
		}
		if got := get(t, reply, "structuredContent", "error", "message"); !strings.Contains(got, "no answer within 10s") {
			t.Errorf("ended with %s", reply.Result)
		}
	})
}

// readStage is a Stage for making every call.
type readStage struct{ Stage }

func (readStage) Plan() journal.Plan                                  { return journal.Plan{Marker: "withheld"} }
func (readStage) Moment() Moment                                      { return MockMoment() }
func (readStage) Call(_ context.Context, c StagedCall) journal.Answer { return c.Make() }
func (readStage) Finished() error                                     { return nil }
func (readStage) Approved() bool                                      { return false }
func (readStage) Saved(StagedCall, tools.Definition) *abi.CallError   { return nil }

// TestPlannedReadsAreCheckedOnce checks that the arguments of a plan's call are charged like the
// arguments of the same call in a run for a client.
func TestPlannedReadsAreCheckedOnce(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"structuredContent":{"n":1}}`)
	var run *journal.Run
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
		o.Catalog.(*catalog.Catalog).SetUpstream("s", wire.Tools, [][]byte{
			[]byte(`{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`),
		}, nil)
		o.Journal = func(b journal.Begin) (*journal.Run, error) {
			run = journal.Open(b)
			return run, nil
		}
	})
	def := saved(`return s.t(n=5).n`)
	c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
	live := run.Record().Outcome
	planned, f := c.RunStaged(t.Context(), def, true, []byte(`{}`), route.Call{}, readStage{})
	if f != nil || string(planned.Outcome.Result) != "1" || live.Checked == 0 {
		t.Fatalf("failed: %v, result %s, checked %d", f, planned.Outcome.Result, live.Checked)
	}
	if planned.Outcome.Checked != live.Checked {
		t.Errorf("the planned run was charged %d for checking, the live run %d", planned.Outcome.Checked, live.Checked)
	}
}
