// Package clienttest has the shared parts of the front ends' tests: Backend, with tools that do
// something to the client, and Lines, the messages of conversations.
package clienttest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Backend is a front.Backend with these tools:
//
//	echo   returns its params
//	count  reports progress as often as its argument says (2 by default)
//	wait   waits for Release
//	task   answers with a task, then reports progress on it, twice
//	late   answers, then reports progress nevertheless, and notifies the client
//	ask    sends the request in its arguments, and returns the answer
//	log    sends as many notifications as its argument says (1 by default)
//
// The test receives from the channels, and sends on Release and Refuse. The other channels are so
// large that the backend never blocks.
type Backend struct {
	Release       chan struct{}       // lets a call of wait return
	Waiting       chan struct{}       // a value for each call of wait
	Cancelled     chan error          // causes of cancelled calls of wait and ask
	Notifications chan string         // method and params of notifications
	Ended         chan route.Session  // ended sessions
	Refuse        chan *wire.RPCError // errors for the next initialize requests
	Began         chan route.Session  // begun sessions
	After         chan func()         // the actions of task and late after their answer; run by the test
}

// Capabilities are the capabilities in the result of Discover.
const Capabilities = `{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{}}`

// New makes a Backend.
func New() *Backend {
	return &Backend{
		Release: make(chan struct{}, 100), Waiting: make(chan struct{}, 10_000), Cancelled: make(chan error, 10_000), Notifications: make(chan string, 10_000),
		Ended: make(chan route.Session, 10_000), Refuse: make(chan *wire.RPCError, 1), Began: make(chan route.Session, 10_000), After: make(chan func(), 10_000),
	}
}

// BeginSession implements front.Backend.
func (b *Backend) BeginSession(_ context.Context, s route.Session) (route.InitializeResult, error) {
	select {
	case bad := <-b.Refuse:
		return route.InitializeResult{}, bad
	default:
	}
	b.Began <- s
	w := route.InitializeResult{Capabilities: []byte(`{"tools":{"listChanged":true}}`), Instructions: "Be nice."}
	if meta, ok := wire.Get(s.Client(), "_meta"); ok {
		w.Meta = meta
	}
	return w, nil
}

// Discover implements stateless.Backend.
func (b *Backend) Discover(route.Session) route.InitializeResult {
	return route.InitializeResult{Capabilities: []byte(Capabilities), Instructions: "Be nice."}
}

// AwaitServers implements stateless.Backend.
func (b *Backend) AwaitServers(context.Context, route.Session) {}

// Begin implements stateless.Backend.
func (b *Backend) Begin(s route.Session) { b.Began <- s }

// Hints implements stateless.Backend.
func (b *Backend) Hints(call route.Call) *envelope.Hints {
	if strings.HasSuffix(call.Method, "/list") || call.Method == "resources/read" {
		return &envelope.Hints{TTL: 1000, Scope: envelope.ScopePrivate}
	}
	return nil
}

// HeaderParams implements front.Backend.
func (b *Backend) HeaderParams(_ route.Session, tool string) envelope.Params {
	if tool != "echo" {
		return envelope.Params{}
	}
	params, err := envelope.ParseParams([]byte(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`))
	if err != nil {
		panic(err)
	}
	return params
}

// Notified implements front.Backend.
func (b *Backend) Notified(_ route.Session, method string, params []byte) {
	b.Notifications <- method + " " + string(params)
}

// EndSession implements front.Backend.
func (b *Backend) EndSession(s route.Session) { b.Ended <- s }

// Handle implements front.Backend.
func (b *Backend) Handle(ctx context.Context, call route.Call) wire.Reply {
	switch call.Method {
	case "tools/list":
		return b.list(call)
	case "tools/call":
		return b.call(ctx, call)
	case "completion/complete":
		return wire.Reply{Error: refuse(wire.CodeMethodNotFound, "no completions").Error, Own: true}
	case "resources/subscribe", "resources/unsubscribe":
		if uri, _ := wire.GetString(call.Params, "uri"); strings.HasSuffix(uri, "missing") {
			return refuse(wire.CodeInvalidParams, "no such resource")
		}
		return wire.Reply{Result: []byte(`{}`)}
	case "prompts/list", "resources/list", "resources/templates/list":
		return wire.Reply{Result: []byte(`{}`)}
	}
	return refuse(wire.CodeMethodNotFound, "method not found: %s", call.Method)
}

func (b *Backend) list(call route.Call) wire.Reply {
	switch cursor, _ := wire.GetString(call.Params, "cursor"); cursor {
	case "":
		return wire.Reply{Result: []byte(`{"tools":[{"name":"echo","x":9007199254740993},{"name":"wait"}],"nextCursor":"2"}`)}
	case "2":
		return wire.Reply{Result: []byte(`{"tools":[{"name":"count"}]}`)}
	}
	return refuse(wire.CodeInvalidParams, "tools/list: invalid cursor")
}

func (b *Backend) call(ctx context.Context, call route.Call) wire.Reply {
	switch name, _ := wire.GetString(call.Params, "name"); name {
	case "echo":
		return wire.Reply{Result: fmt.Appendf(nil, `{"params":%s}`, call.Params)}
	case "count":
		for i := range times(call, 2) {
			report(call, i+1)
		}
		return wire.Reply{Result: []byte(`{}`)}
	case "wait":
		b.Waiting <- struct{}{}
		select {
		case <-b.Release:
			return wire.Reply{Result: []byte(`{"waited":true}`)}
		case <-ctx.Done():
			b.Cancelled <- context.Cause(ctx)
			return wire.Reply{Result: []byte(`{"never":"seen"}`)}
		}
	case "task":
		b.After <- func() { report(call, 1); report(call, 2) }
		return wire.Reply{Result: []byte(`{"task":{"taskId":"t1","status":"working"}}`)}
	case "late":
		b.After <- func() { report(call, 1); call.Origin.Notify("notifications/late", nil) }
		return wire.Reply{Result: []byte(`{"taskId":"no task"}`)}
	case "lacking":
		return refuse(wire.CodeMethodNotFound, "the server lacks it")
	case "ask":
		return b.ask(ctx, call)
	case "log":
		for i := range times(call, 1) {
			call.Origin.Notify("notifications/message", fmt.Appendf(nil, `{"level":"info","data":%d}`, i+1))
		}
		return wire.Reply{Result: []byte(`{}`)}
	default:
		return refuse(wire.CodeInvalidParams, "unknown tool: %s", name)
	}
}

// ask sends arguments.method with arguments.params, for the session instead of
// the call with arguments.session, and returns reply and progress.
func (b *Backend) ask(ctx context.Context, call route.Call) wire.Reply {
	method, _ := wire.GetString(call.Params, "arguments", "method")
	params, _ := wire.Get(call.Params, "arguments", "params")
	origin := call.Origin
	if _, ok := wire.Get(call.Params, "arguments", "session"); ok {
		origin = origin.Session()
	}
	request := wire.Call{Method: method, Params: params}
	if _, ok := wire.Get(call.Params, "arguments", "progress"); ok {
		request.Progress = func(params []byte) { b.Notifications <- "progress " + string(params) }
	}
	reply, err := origin.Ask(ctx, request)
	switch {
	case err != nil && ctx.Err() != nil:
		b.Cancelled <- err
		return wire.Reply{}
	case err != nil:
		return refuse(wire.CodeInternal, "ask: %v", err)
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

func refuse(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}
