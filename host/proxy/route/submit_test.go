package route

import (
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// submitter is an Upstream with Submit. The test completes the calls.
type submitter struct {
	*fakeUpstream
	full     bool
	calls    chan wire.Call
	complete wire.CompletionFunc
	cancel   error
}

func (b *submitter) Submit(call wire.Call, complete wire.CompletionFunc) (func(error), bool) {
	if b.full {
		return nil, false
	}
	if call.Sent != nil {
		call.Sent(call.Params)
	}
	b.calls <- call
	b.complete = complete
	return func(cause error) { b.cancel = cause }, true
}

// responder is a Responder that runs work at once.
type responder struct {
	ctx       context.Context
	cancelled bool // by the client
	replied   []string
	started   []string
}

func (l *responder) Cancelled() bool { return l.cancelled }

func (l *responder) Reply(reply wire.Reply) {
	l.replied = append(l.replied, string(reply.Result)+string(reply.Error))
}

func (l *responder) Start(work func(context.Context) wire.Reply) {
	reply := work(l.ctx)
	l.started = append(l.started, string(reply.Result)+string(reply.Error))
}

// asyncObserver is an AsyncObserver that refuses calls while busy.
type asyncObserver struct {
	observer
	busy  bool
	async []ObservedCall
}

func (o *asyncObserver) ObserveAsync(call ObservedCall, then func()) bool {
	if o.busy {
		return false
	}
	o.async = append(o.async, call)
	then()
	return true
}

func submitRig(t *testing.T) (*rig, *submitter, func(params string) (*responder, bool)) {
	g := newRig(t, "a", "b")
	g.lists("a", wire.Tools, "tool")
	g.lists("b", wire.Tools, "tool")
	b := &submitter{fakeUpstream: g.ups["a"], calls: make(chan wire.Call, 1)}
	g.shared.Set("a", b)
	s := g.session("s", `{}`)
	return g, b, func(params string) (*responder, bool) {
		l := &responder{ctx: t.Context()}
		_, ok := g.router.Submit(Call{Method: "tools/call", Origin: s.request("r"), Params: []byte(params)}, l)
		return l, ok
	}
}

// TestSubmit checks that a call of an upstream's tool is submitted under the tool's real name.
func TestSubmit(t *testing.T) {
	_, b, begin := submitRig(t)
	l, ok := begin(`{"x":1e400,"name":"a__tool","arguments":{"y":1}}`)
	if !ok {
		t.Fatal("not submitted")
	}
	call := <-b.calls
	if string(call.Params) != `{"x":1e400,"name":"tool","arguments":{"y":1}}` || call.Owner.(*fakeRequest).id != "r" {
		t.Errorf("%s %v", call.Params, call.Owner)
	}
	b.complete(wire.Reply{Result: []byte(`{"z":1}`)}, nil)
	want(t, "replied", l.replied, `{"z":1}`)
	want(t, "started", l.started)
}

// TestSubmitProgress checks that a call with a progress token is also submitted, and gets progress.
func TestSubmitProgress(t *testing.T) {
	g, b, _ := submitRig(t)
	var got []string
	l := &responder{ctx: t.Context()}
	call := Call{Method: "tools/call", Origin: g.sessions["s"], Params: []byte(`{"name":"a__tool"}`),
		Progress: func(params []byte) { got = append(got, string(params)) }}
	if _, ok := g.router.Submit(call, l); !ok {
		t.Fatal("not submitted")
	}
	(<-b.calls).Progress([]byte(`{"progress":1}`))
	b.complete(wire.Reply{Result: []byte(`{}`)}, nil)
	want(t, "progress", got, `{"progress":1}`)
	want(t, "replied", l.replied, `{}`)
}

// TestSubmitTask checks that the session of a submitted call's task is remembered, and that a
// status that arrived before the task is sent from Start, which may wait for the client.
func TestSubmitTask(t *testing.T) {
	g, b, begin := submitRig(t)
	status := func(id string) {
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/tasks/status", Params: []byte(`{"taskId":"` + id + `","status":"working"}`)})
	}
	g.session("other", `{}`)
	for id, early := range map[string]bool{"t": false, "u": true} {
		l, ok := begin(`{"name":"a__tool","task":{}}`)
		if !ok {
			t.Fatal("not submitted")
		}
		<-b.calls
		g.sessions["s"].heard()
		if early {
			status(id)
		}
		result := `{"task":{"taskId":"` + id + `"}}`
		b.complete(wire.Reply{Result: []byte(result)}, nil)
		if early {
			want(t, "started", l.started, result)
		} else {
			want(t, "replied", l.replied, result)
			status(id)
		}
		want(t, "heard", g.sessions["s"].heard(), `notifications/tasks/status {"taskId":"`+id+`","status":"working"}`)
	}
}

// TestSubmitRefusesOtherRequests checks that Submit refuses all other requests.
func TestSubmitRefusesOtherRequests(t *testing.T) {
	g, b, begin := submitRig(t)
	g.router.Catalog.SetBuiltins([]catalog.Entry{{Name: "builtin", Definition: []byte(`{"name":"builtin"}`)}})
	for _, params := range []string{
		``, `[]`, `{}`, `{"name":1}`, `{"name":"unknown"}`, `{"name":"builtin"}`,
		`{"name":"a__tool","_meta":1}`, `{"name":"a__tool","arguments":[]}`,
		`{"name":"b__tool"}`, // of an upstream without Submit
	} {
		if _, ok := begin(params); ok {
			t.Errorf("submitted: %s", params)
		}
	}
	good := Call{Method: "tools/call", Origin: g.sessions["s"], Params: []byte(`{"name":"a__tool"}`)}
	for name, change := range map[string]func(*Call){
		"another method": func(c *Call) { c.Method = "prompts/get" },
		"a full writer":  func(*Call) { b.full = true },
	} {
		call := good
		change(&call)
		if _, ok := g.router.Submit(call, &responder{}); ok {
			t.Errorf("submitted: %s", name)
		}
	}
	if len(b.calls) > 0 {
		t.Error("something was sent")
	}
}

// TestSubmittedThatFails checks that a failed submitted call gets the same reply as from Handle.
func TestSubmittedThatFails(t *testing.T) {
	g, b, begin := submitRig(t)
	for _, err := range []error{errDown, wire.Errorf(wire.CodeInvalidParams, "bad"), errors.Join(wire.ErrUnusable, errDown)} {
		l, ok := begin(`{"name":"a__tool"}`)
		if !ok {
			t.Fatal("not submitted")
		}
		<-b.calls
		b.complete(wire.Reply{}, func(context.Context) (wire.Reply, error) { return wire.Reply{}, err })
		b.fakeUpstream.err = err
		want(t, err.Error(), l.started, g.ask(g.sessions["s"], "tools/call", `{"name":"a__tool"}`))
		want(t, "replied", l.replied)
	}
}

// TestSubmittedAreObserved checks that each submitted call is observed once, before the answer.
func TestSubmittedAreObserved(t *testing.T) {
	g, b, begin := submitRig(t)
	o := &asyncObserver{}
	g.router.Observer = o
	run := func() *responder {
		t.Helper()
		l, ok := begin(`{"name":"a__tool","arguments":{}}`)
		if !ok {
			t.Fatal("not submitted")
		}
		<-b.calls
		return l
	}
	l := run()
	b.complete(wire.Reply{Result: []byte(`{}`)}, nil)
	want(t, "replied", l.replied, `{}`)
	o.busy = true
	l = run()
	b.complete(wire.Reply{Result: []byte(`{}`)}, nil)
	want(t, "started", l.started, `{}`)
	l = run()
	var stop context.CancelFunc
	l.ctx, stop = context.WithCancel(t.Context())
	stop()
	b.complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return wire.Reply{}, context.Cause(ctx) })
	o.off = true
	l = run()
	b.complete(wire.Reply{Result: []byte(`{}`)}, nil)
	want(t, "replied", l.replied, `{}`)
	if len(o.async) != 1 || len(o.seen) != 2 {
		t.Fatalf("seen %+v, %+v", o.async, o.seen)
	}
	first := o.async[0]
	if first.Server != "a" || first.Tool != "tool" || string(first.Params) != `{"name":"tool","arguments":{}}` || first.Start.IsZero() || string(first.Reply.Result) != `{}` {
		t.Errorf("%+v", first)
	}
	if o.seen[0].Cancelled || !o.seen[1].Cancelled {
		t.Errorf("%+v", o.seen)
	}
}

// TestSubmittedThatWasCancelledIsObserved checks a submitted call that the upstream answers just
// after the client has cancelled the call: the observer sees a cancelled call, asynchronous or not.
func TestSubmittedThatWasCancelledIsObserved(t *testing.T) {
	for _, busy := range []bool{false, true} {
		g, b, begin := submitRig(t)
		o := &asyncObserver{busy: busy}
		g.router.Observer = o
		l, ok := begin(`{"name":"a__tool","arguments":{}}`)
		if !ok {
			t.Fatal("not submitted")
		}
		<-b.calls
		l.cancelled = true
		b.complete(wire.Reply{Result: []byte(`{}`)}, nil)
		seen := append(o.async, o.seen...)
		if len(seen) != 1 || !seen[0].Cancelled {
			t.Errorf("busy %t: seen %+v", busy, seen)
		}
	}
}

// TestSubmittedElicitation checks that elicitations in the error of a submitted call are
// remembered.
func TestSubmittedElicitation(t *testing.T) {
	g, b, begin := submitRig(t)
	if _, ok := begin(`{"name":"a__tool"}`); !ok {
		t.Fatal("not submitted")
	}
	<-b.calls
	b.complete(reply(`{"code":-32042,"data":{"elicitations":[{"elicitationId":"e"}]}}`), nil)
	g.sessions["s"].heard()
	g.router.OnNotification("a", wire.Inbound{Method: "notifications/elicitation/complete", Params: []byte(`{"elicitationId":"e"}`)})
	want(t, "heard", g.sessions["s"].heard(), `notifications/elicitation/complete {"elicitationId":"e"}`)
}
