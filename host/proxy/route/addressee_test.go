package route

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// crowd is a session with requests of several clients.
type crowd struct{ *fakeSession }

func (c *crowd) Session() Session  { return c }
func (c *crowd) ManyClients() bool { return true }

// crowdRequest is a request of a client of a crowd. The client is asked with the id.
type crowdRequest struct {
	*fakeRequest
	of       Session
	standing Standing
	asked    func(ctx context.Context) (wire.Reply, error) // nil: the client answers
}

func (r *crowdRequest) Session() Session   { return r.of }
func (r *crowdRequest) Standing() Standing { return r.standing }

func (r *crowdRequest) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	r.tell(r.id + ": " + call.Method)
	if r.asked != nil {
		return r.asked(ctx)
	}
	return wire.Reply{Result: []byte(`{}`)}, nil
}

// scriptCall is a call of a script for a request.
type scriptCall struct{ Origin }

func (c *scriptCall) Unwrap() Origin { return c.Origin }

// inFlight are calls in flight. They implement Inbound.Await: at some times, calls end.
type inFlight struct {
	calls []any
	ends  map[time.Duration]any
}

func (f *inFlight) await(ctx context.Context, decided func([]any) bool) []any {
	start := time.Now()
	for !decided(f.calls) && ctx.Err() == nil {
		next := time.Hour
		for at := range f.ends {
			next = min(next, at)
		}
		select {
		case <-time.After(next - time.Since(start)):
			ended := f.ends[next]
			delete(f.ends, next)
			f.calls = slices.DeleteFunc(slices.Clone(f.calls), func(call any) bool { return call == ended })
		case <-ctx.Done():
		}
	}
	return f.calls
}

// people are clients with the same token, or without a token.
func people(t *testing.T, token string) (g *rig, s *crowd, request func(id string, standing Standing) *crowdRequest) {
	g = newRig(t, "a")
	s = &crowd{&fakeSession{name: token, params: `{"capabilities":{"roots":{}}}`, old: stateless}}
	g.router.Begin(s)
	return g, s, func(id string, standing Standing) *crowdRequest {
		return &crowdRequest{fakeRequest: s.request(id), of: s, standing: standing}
	}
}

// TestQuestionAmongCalls checks which of several calls in flight gets a question, when the calls
// are of clients with the same token, without a token, or of the client on stdio, and how long the
// decision takes.
func TestQuestionAmongCalls(t *testing.T) {
	const nobody = ""
	for _, tt := range []struct {
		name  string
		calls string // ids; the first letter is the Standing: o, p or c
		ends  string // the call ending after 300 ms
		// who is asked: with a token, without a token, on stdio
		token, anonymous, stdio string
		waits                   time.Duration // with a token; without a token the wait can be longer
	}{
		{"one call", "o1", "", "o1", "o1", "o1", 0},
		{"a parked one, and another", "p1 o2", "", "o2", nobody, "o2", 0},
		{"the parked one is newer", "o1 p2", "", "o1", nobody, "o1", 0},
		{"a parked one that ends, and another", "p1 o2", "p1", "o2", "o2", "o2", 0},
		{"a parked one, and another that ends", "p1 o2", "o2", "o2", "p1", "o2", 0},
		{"two, one of them ends", "o1 o2", "o2", "o1", "o1", "o2", 300 * time.Millisecond},
		{"two that go on", "o1 o2", "", "o2", nobody, "o2", time.Second},
		{"a cancelled one that is forgotten", "c1 o2", "c1", "o2", "o2", "o2", 300 * time.Millisecond},
		{"a cancelled one that is not", "o1 c2", "", "o1", nobody, "o1", time.Second},
		{"two parked ones", "p1 p2", "", "p2", nobody, "p2", time.Second},
		{"one parked one", "p1", "", "p1", "p1", "p1", 0},
		{"parked ones, and two others", "p1 o2 o3 p4", "o3", "o2", nobody, "o3", 300 * time.Millisecond},
	} {
		for who, want := range map[string]string{"token": tt.token, "": tt.anonymous, "stdio": tt.stdio} {
			synctest.Test(t, func(t *testing.T) {
				g, s, request := people(t, who)
				only := g.session("only", `{"roots":{}}`)
				flight := &inFlight{ends: map[time.Duration]any{}}
				for id := range strings.FieldsSeq(tt.calls) {
					r := request(id, map[byte]Standing{'o': Open, 'p': Parked, 'c': Closed}[id[0]])
					if who == "stdio" {
						r.of = only
					}
					flight.calls = append(flight.calls, r)
					if id == tt.ends {
						flight.ends[300*time.Millisecond] = r
					}
				}
				begin := time.Now()
				got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(flight.calls...), Await: flight.await})
				asked := strings.TrimSuffix(strings.Join(s.heard(), "|"), ": roots/list")
				waits := tt.waits
				switch {
				case who == "stdio":
					waits = 0
				case who == "" && want == nobody:
					waits = 5 * time.Second
				case who == "" && tt.ends != "":
					waits = 300 * time.Millisecond
				}
				if took := time.Since(begin); asked != want || took != waits || (got.Error == nil) != (want != nobody) {
					t.Errorf("%s, %q: asked %q after %v: %s%s", tt.name, who, asked, took, got.Result, got.Error)
				}
				g.router.EndSession(s)
			})
		}
	}
}

// TestQuestionNeverChangesPrincipal checks that a question does not wait for the end of other
// principals' calls, and goes to none of them.
func TestQuestionNeverChangesPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, request := people(t, "token")
		other := &crowd{&fakeSession{name: "other", params: s.params, old: stateless}}
		g.router.Begin(other)
		mine, parked := request("mine", Open), request("parked", Parked)
		theirs := &crowdRequest{fakeRequest: other.request("theirs"), of: other}
		for _, calls := range [][]any{{mine, theirs}, {theirs, parked}, {parked, theirs, mine}} {
			flight := &inFlight{calls: calls, ends: map[time.Duration]any{0: theirs}}
			begin := time.Now()
			got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(calls...), Await: flight.await})
			if wire.ParseError(got.Error).Code != wire.CodeInternal || time.Since(begin) != 0 || s.heard() != nil || other.heard() != nil {
				t.Errorf("%s%s", got.Result, got.Error)
			}
		}
	})
}

// TestQuestionOfAnsweredCall checks that a question for a call which is answered before the client
// has answered goes to another call, and the question of a cancelled call does not.
func TestQuestionOfAnsweredCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, request := people(t, "token")
		x, y := request("x", Open), request("y", Open)
		flight := &inFlight{calls: []any{x, y}}
		in := wire.Inbound{Method: "roots/list", Owners: owners(x, y), Await: flight.await}
		y.asked = func(context.Context) (wire.Reply, error) { return wire.Reply{}, wire.ErrClosed }
		got := g.router.OnRequest(t.Context(), "a", in)
		want(t, "cancelled", s.heard(), "y: roots/list")
		if got.Error == nil {
			t.Errorf("cancelled: %s", got.Result)
		}
		y.asked = func(context.Context) (wire.Reply, error) {
			flight.calls = []any{x}
			return wire.Reply{}, ErrAnswered
		}
		got = g.router.OnRequest(t.Context(), "a", in)
		want(t, "answered", s.heard(), "y: roots/list", "x: roots/list")
		if string(got.Result) != `{}` {
			t.Errorf("answered: %s", got.Error)
		}
		x.asked = func(context.Context) (wire.Reply, error) { return wire.Reply{}, errors.New("gone") }
		got = g.router.OnRequest(t.Context(), "a", in)
		if want := `{"code":-32603,"message":"roots/list: no answer of the client: gone"}`; string(got.Error) != want {
			t.Errorf("%s%s", got.Result, got.Error)
		}
	})
}

// TestQuestionOfScript checks that the calls of a script count as calls of a single request, and
// that the client is asked for a call that declares the capability for the question.
func TestQuestionOfScript(t *testing.T) {
	g, s, request := people(t, "")
	x := request("x", Open)
	ask := func(of ...any) wire.Reply {
		return g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(of...)})
	}
	if got := ask(&scriptCall{x}, &scriptCall{x}, x); got.Error != nil {
		t.Errorf("%s", got.Error)
	}
	want(t, "x", s.heard(), "x: roots/list")
	only := g.session("only", `{"roots":{}}`)
	able := &statelessRequest{only.request("1"), `{"capabilities":{"roots":{}}}`, ""}
	unable := &statelessRequest{only.request("2"), `{"capabilities":{}}`, ""}
	if got := ask(able, unable); got.Error != nil {
		t.Errorf("%s", got.Error)
	}
}

// TestNotificationAmongCalls checks that a message for a request of a client reaches no request of
// another client of the same session.
func TestNotificationAmongCalls(t *testing.T) {
	g, s, request := people(t, "token")
	x, y, parked := request("x", Open), request("y", Open), request("parked", Parked)
	g.notice("a", "notifications/message", `{"level":"info"}`, x, y)
	want(t, "s", s.heard())
	g.notice("a", "notifications/message", `{"level":"info"}`, x, parked)
	want(t, "s", s.heard(), `x: notifications/message {"level":"info","logger":"a"}`)

	g, s, request = people(t, "")
	x, parked = request("x", Open), request("parked", Parked)
	g.notice("a", "notifications/message", `{"level":"info"}`, x, parked)
	want(t, "without a token", s.heard())
	g.notice("a", "notifications/message", `{"level":"info"}`, x, &scriptCall{x})
	want(t, "without a token", s.heard(), `x: notifications/message {"level":"info","logger":"a"}`)
}

// TestQuestionOfEndedRun checks that a question which ends the wrong run goes on to the right call.
func TestQuestionOfEndedRun(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{"roots":{}}`)
	x, y := s.request("x"), s.request("y")
	run := &endedRun{y}
	ask := func(of ...any) wire.Reply {
		flight := &inFlight{calls: of}
		return g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(of...), Await: flight.await})
	}
	if got := ask(x, run); got.Error != nil || !strings.Contains(string(got.Result), "roots/list") {
		t.Errorf("two calls: %s %s", got.Result, got.Error)
	}
	if got := ask(run); wire.ParseError(got.Error).Code != wire.CodeInternal || !strings.Contains(string(got.Error), ErrAsksLater.Error()) {
		t.Errorf("only the run: %s %s", got.Result, got.Error)
	}
}

// endedRun is a call of a script whose run ends with a question.
type endedRun struct{ *fakeRequest }

func (c *endedRun) Unwrap() Origin { return c.fakeRequest }

func (c *endedRun) Ask(context.Context, wire.Call) (wire.Reply, error) {
	return wire.Reply{}, ErrAsksLater
}
