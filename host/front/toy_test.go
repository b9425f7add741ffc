package front

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.DiscardHandler)

// toyBackend has tools that do something to the client:
//
//	echo   returns its params
//	count  reports progress as often as its argument says (2 by default)
//	wait   waits
//	task   answers with a task, then reports progress on it, twice
//	late   answers, then reports progress all the same, and says so
//	ask    sends the request in its arguments, and returns the answer
//	log    sends as many log messages as its argument says (1 by default)
type toyBackend struct {
	release   chan struct{}
	waiting   chan struct{} // how many calls have begun to wait
	cancelled chan error
	notified  chan string
	left      chan route.Session
	refuse    chan *wire.RPCError // Welcome fails with what is in it
	welcomed  chan route.Session
	after     chan func() // what the tools task and late do after their answer
}

func newToyBackend() *toyBackend {
	return &toyBackend{
		release: make(chan struct{}, 100), waiting: make(chan struct{}, 10_000), cancelled: make(chan error, 10_000), notified: make(chan string, 10_000),
		left: make(chan route.Session, 10_000), refuse: make(chan *wire.RPCError, 1), welcomed: make(chan route.Session, 10_000), after: make(chan func(), 10_000),
	}
}

func (b *toyBackend) options() Options {
	return Options{Backend: b, Name: "test", Version: "1.2.3", MaxMessage: 64 << 10, Log: silent}
}

func (b *toyBackend) Welcome(_ context.Context, s route.Session) (route.Welcome, error) {
	select {
	case bad := <-b.refuse:
		return route.Welcome{}, bad
	default:
	}
	b.welcomed <- s
	w := route.Welcome{Capabilities: []byte(`{"tools":{"listChanged":true}}`), Instructions: "Be nice."}
	if meta, ok := wire.Get(s.Client(), "_meta"); ok {
		w.Meta = meta
	}
	return w, nil
}

func (b *toyBackend) Notified(_ route.Session, method string, params []byte) {
	b.notified <- method + " " + string(params)
}

func (b *toyBackend) Left(s route.Session) { b.left <- s }

func (b *toyBackend) Handle(ctx context.Context, call route.Call) wire.Reply {
	switch call.Method {
	case "tools/list":
		return b.list(call)
	case "tools/call":
		return b.call(ctx, call)
	case "prompts/list", "resources/list", "resources/templates/list":
		return wire.Reply{Result: []byte(`{}`)}
	}
	return fail(wire.CodeMethodNotFound, "method not found: %s", call.Method)
}

func (b *toyBackend) list(call route.Call) wire.Reply {
	switch cursor, _ := wire.GetString(call.Params, "cursor"); cursor {
	case "":
		return wire.Reply{Result: []byte(`{"tools":[{"name":"echo","x":9007199254740993},{"name":"wait"}],"nextCursor":"2"}`)}
	case "2":
		return wire.Reply{Result: []byte(`{"tools":[{"name":"count"}]}`)}
	}
	return fail(wire.CodeInvalidParams, "tools/list: invalid cursor")
}

func (b *toyBackend) call(ctx context.Context, call route.Call) wire.Reply {
	switch name, _ := wire.GetString(call.Params, "name"); name {
	case "echo":
		return wire.Reply{Result: fmt.Appendf(nil, `{"params":%s}`, call.Params)}
	case "count":
		for i := range times(call, 2) {
			report(call, i+1)
		}
		return wire.Reply{Result: []byte(`{}`)}
	case "wait":
		b.waiting <- struct{}{}
		select {
		case <-b.release:
			return wire.Reply{Result: []byte(`{"waited":true}`)}
		case <-ctx.Done():
			b.cancelled <- context.Cause(ctx)
			return wire.Reply{Result: []byte(`{"never":"seen"}`)}
		}
	case "task":
		b.after <- func() { report(call, 1); report(call, 2) }
		return wire.Reply{Result: []byte(`{"task":{"taskId":"t1","status":"working"}}`)}
	case "late":
		b.after <- func() { report(call, 1); call.Origin.Notify("notifications/late", nil) }
		return wire.Reply{Result: []byte(`{"taskId":"no task"}`)}
	case "ask":
		return b.ask(ctx, call)
	case "log":
		for i := range times(call, 1) {
			call.Origin.Notify("notifications/message", fmt.Appendf(nil, `{"level":"info","data":%d}`, i+1))
		}
		return wire.Reply{Result: []byte(`{}`)}
	default:
		return fail(wire.CodeInvalidParams, "unknown tool: %s", name)
	}
}

// ask sends arguments.method with arguments.params, for the session instead of
// the call with arguments.session, and returns reply and progress.
func (b *toyBackend) ask(ctx context.Context, call route.Call) wire.Reply {
	method, _ := wire.GetString(call.Params, "arguments", "method")
	params, _ := wire.Get(call.Params, "arguments", "params")
	origin := call.Origin
	if _, ok := wire.Get(call.Params, "arguments", "session"); ok {
		origin = origin.Session()
	}
	request := wire.Call{Method: method, Params: params}
	if _, ok := wire.Get(call.Params, "arguments", "progress"); ok {
		request.Progress = func(params []byte) { b.notified <- "progress " + string(params) }
	}
	reply, err := origin.Ask(ctx, request)
	switch {
	case err != nil && ctx.Err() != nil:
		b.cancelled <- err
		return wire.Reply{}
	case err != nil:
		return fail(wire.CodeInternal, "ask: %v", err)
	case reply.Error != nil:
		return wire.Reply{Result: fmt.Appendf(nil, `{"refused":%s}`, reply.Error)}
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"answer":%s}`, reply.Result)}
}

func times(call route.Call, otherwise int) int {
	if n, ok := wire.Get(call.Params, "arguments", "times"); ok {
		otherwise, _ = strconv.Atoi(string(n))
	}
	return otherwise
}

func report(call route.Call, n int) {
	if call.Progress != nil {
		call.Progress(fmt.Appendf(nil, `{"progressToken":"ours","progress":%d,"x":{"y":1.0}}`, n))
	}
}
