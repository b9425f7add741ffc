package route

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// fakeGate is a Gate with the same decision for all requests, unless a client has a separate
// decision. Everything happens on the goroutine of the request.
type fakeGate struct {
	inactive bool
	decision policy.Decision
	of       map[string]policy.Decision // by policy.Caller.Principal, or by principal and policy.Request.Name
	approve  func() error
	decided  []policy.Request
}

func (g *fakeGate) Active() bool { return !g.inactive }

func (g *fakeGate) Decide(r policy.Request) policy.Decision {
	g.decided = append(g.decided, r)
	if d, ok := g.of[r.Caller.Principal+" "+r.Name]; ok {
		return d
	}
	if d, ok := g.of[r.Caller.Principal]; ok {
		return d
	}
	return g.decision
}

func (g *fakeGate) Approve(context.Context, Asking) (policy.Approval, error) {
	return policy.Approval{}, g.approve()
}

// TestChangesWhileAsked checks that a request allowed by a person is not sent if the question would
// be another question by then, or if policy denies the request.
func TestChangesWhileAsked(t *testing.T) {
	ask := policy.Decision{Action: policy.Ask, Rule: "asks"}
	for name, test := range map[string]struct {
		change func(g *rig, gate *fakeGate)
		denied string // part of the error; "" if the call is made
	}{
		"nothing":                        {func(*rig, *fakeGate) {}, ""},
		"list, with the same definition": {func(g *rig, _ *fakeGate) { g.lists("a", wire.Tools, "other", "t") }, ""},
		"allowed":                        {func(_ *rig, gate *fakeGate) { gate.decision = policy.Decision{Action: policy.Allow} }, ""},
		"no policy":                      {func(_ *rig, gate *fakeGate) { gate.inactive = true }, ""},
		"denied":                         {func(_ *rig, gate *fakeGate) { gate.decision = policy.Decision{Action: policy.Deny, Rule: "never"} }, `policy denies a.t (rule \"never\")`},
		"other rule":                     {func(_ *rig, gate *fakeGate) { gate.decision.Rule = "asks, too" }, `policy asks for the approval of a.t (rule \"asks, too\")`},
		"definition": {func(g *rig, _ *fakeGate) {
			g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(`{"name":"t","inputSchema":{"type":"object"},"description":"now harmless"}`)}, nil)
		}, `policy asks for the approval of a.t (rule \"asks\")`},
	} {
		g := newRig(t, "a")
		g.lists("a", wire.Tools, "t")
		sent := 0
		g.ups["a"].answer["tools/call"] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			if err := call.Permit.Permitted(); err != nil {
				return wire.Reply{}, &wire.DeniedError{Err: err}
			}
			sent++
			return reply(`{"content":[]}`), nil
		}
		gate := &fakeGate{decision: ask}
		gate.approve = func() error { test.change(g, gate); return nil }
		g.router.Gate = gate
		got := g.ask(g.session("s", able), "tools/call", `{"name":"a__t"}`)
		if (sent == 1) != (test.denied == "") || !strings.Contains(got, test.denied) {
			t.Errorf("%s: sent %d times, %s", name, sent, got)
		}
	}
}

// TestDeniedIsObserved checks that the observer gets the params of an unsent call, whether the call
// was denied at once or just before the write.
func TestDeniedIsObserved(t *testing.T) {
	for _, late := range []bool{false, true} {
		g := newRig(t, "a")
		g.lists("a", wire.Tools, "t")
		gate := &fakeGate{inactive: late, decision: policy.Decision{Action: policy.Deny, Rule: "never"}}
		o := &observer{}
		g.router.Gate, g.router.Observer = gate, o
		g.ups["a"].answer["tools/call"] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			gate.inactive = false
			return wire.Reply{}, &wire.DeniedError{Err: call.Permit.Permitted()}
		}
		g.ask(g.session("s", able), "tools/call", `{"name":"a__t","arguments":{"x":1}}`)
		if len(o.seen) != 1 || string(o.seen[0].Params) != `{"name":"t","arguments":{"x":1}}` || o.seen[0].Reply.Denied == nil ||
			o.seen[0].Decision.Rule != "never" || !o.seen[0].Unsent {
			t.Errorf("late %v: %+v", late, o.seen)
		}
	}
}

// TestGateThatBecomesActive checks that a request which began without a policy is decided about
// before the request is sent.
func TestGateThatBecomesActive(t *testing.T) {
	for method, params := range map[string]string{
		"tools/call": `{"name":"a__t"}`, "prompts/get": `{"name":"a__p"}`, "resources/read": `{"uri":"a://r"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"a__p"}}`, "x/unknown": `{}`,
	} {
		g := newRig(t, "a")
		g.lists("a", wire.Tools, "t")
		g.lists("a", wire.Prompts, "p")
		gate := &fakeGate{inactive: true, decision: policy.Decision{Action: policy.Deny, Rule: "never"}}
		g.router.Gate = gate
		g.ups["a"].answer[method] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			gate.inactive = false
			if err := call.Permit.Permitted(); err != nil {
				return wire.Reply{}, &wire.DeniedError{Err: err}
			}
			return reply(`{}`), nil
		}
		if got := g.ask(g.session("s", able), method, params); !strings.Contains(got, `(rule \"never\")`) {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// TestNameOfCaller checks that only a client without credentials has a name of the client's own
// choice.
func TestNameOfCaller(t *testing.T) {
	for _, test := range []struct{ principal, token, want string }{
		{"", "", "ci"}, {"p", "", ""}, {"p", "laptop", "laptop token"},
	} {
		g := newRig(t, "a")
		g.lists("a", wire.Tools, "t")
		gate := &fakeGate{}
		g.router.Gate = gate
		s := &namedSession{g.session(test.principal, `{},"clientInfo":{"name":"ci"}`), test.token}
		g.router.Handle(t.Context(), Call{Method: "tools/call", Origin: s, Params: []byte(`{"name":"a__t"}`)})
		for _, r := range gate.decided {
			got := r.Caller.Client
			if r.Caller.Token {
				got = fmt.Sprint(got, " token")
			}
			if got != test.want || r.Caller.Principal != test.principal {
				t.Errorf("%+v: %+v", test, r.Caller)
			}
		}
		if len(gate.decided) == 0 {
			t.Errorf("%+v: nothing was decided", test)
		}
	}
}

// namedSession is a session of a client with a token.
type namedSession struct {
	*fakeSession
	token string
}

func (s *namedSession) Session() Session  { return s }
func (s *namedSession) TokenName() string { return s.token }
