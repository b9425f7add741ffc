package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// oddParams are additional members for params.
const oddParams = `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","example.com/n":9007199254740993,"progressToken":"a token","z":1e400},` + oddities

// oddRequests has a request for each method that servers answer.
var oddRequests = []struct{ method, params string }{
	{"tools/call", ` { "name":"echo" , "arguments":{"b":1.0,"a":[12345678901234567890,-0,1e999],"s":"\ud83d\ude00\u0000"},` + oddParams + `}`},
	{"tools/call", `{` + oddParams + `,"arguments":{},"name":"\u0065xotic"}`},
	{"resources/read", `{"uri":"file:///tmp/a%20b?x=%C3%A9#f",` + oddParams + `}`},
	{"prompts/get", `{"name":"greet","arguments":{"who":"\u00e9","n":"1.0"},` + oddParams + `}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet","x":1.0},"argument":{"name":"who","value":"a"},"context":{"arguments":{"a":"b"}},` + oddParams + `}`},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":"raw://{+path}"},"argument":{"name":"path","value":""},` + oddParams + `}`},
	{"x-unknown/method", `{"some":1.0,` + oddParams + `}`},
}

func runParams(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range oddRequests {
		if _, err := p.request(ctx, r.method, r.params); err != nil {
			return nil, err
		}
		e, err := p.arrived(ctx, r.method, Method(r.method))
		if err != nil {
			return nil, err
		}
		s.add(r.method, withoutToken(e.Msg.Params))
		_, hasToken := wire.Get(e.Msg.Params, "_meta", "progressToken")
		s.put("with a token", hasToken)
		if p.from, err = p.after(ctx, e); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

// after returns the index in the server's log after an entry.
func (p *Pair) after(ctx context.Context, e Entry) (int, error) {
	_, from, err := p.Server.Find(ctx, "what was there", p.from, func(o Entry) bool { return &o.Raw[0] == &e.Raw[0] })
	return from, err
}

func runResults(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range oddRequests {
		e, err := p.request(ctx, r.method, r.params)
		if err != nil {
			return nil, err
		}
		s.add(r.method, without(e.Msg.Result, "received"))
	}
	return s.json(), nil
}

func runErrors(ctx context.Context, p *Pair) ([]byte, error) {
	e, err := p.request(ctx, "tools/call", ToolParams("error", "{}", ""))
	if err != nil {
		return nil, err
	}
	var s observation
	s.add("error", e.Msg.Error)
	return s.json(), nil
}

func runIDs(ctx context.Context, p *Pair) ([]byte, error) {
	ids := []string{`1`, `"1"`, `9007199254740993`, `"9007199254740993"`, `123456789012345678901234567890`, `-1`, `""`, `"a\u00e9\/\" <b>"`, `"null"`}
	answers := make([]<-chan Answer, len(ids))
	for i, id := range ids {
		answers[i] = p.start(id, "tools/call", ToolParams("instead", fmt.Sprintf(`{"text":"text %d"}`, i), ""))
	}
	var s observation
	for i, id := range ids {
		e, err := p.await(ctx, "id "+id, answers[i])
		if err != nil {
			return nil, err
		}
		s.add("id", e.Msg.ID)
		s.add("result", e.Msg.Result)
	}
	return s.json(), nil
}

// progressOf adds to s how many progress notifications with a token came before
// and after the response to id, starting at index from of the client's log, and
// whether they were in order.
func (p *Pair) progressOf(token, id string, from int, s *observation) {
	var all [][]byte
	before, ordered, answered := 0, true, false
	for _, e := range p.Client.Log.All()[from:] {
		got, _ := wire.Get(e.Msg.Params, "progressToken")
		switch {
		case ResponseTo(id)(e):
			answered = true
		case e.Msg.Method == "notifications/progress" && bytes.Equal(got, []byte(token)):
			all = append(all, e.Msg.Params)
			if n, _ := wire.Get(e.Msg.Params, "progress"); string(n) != fmt.Sprint(len(all)) {
				ordered = false
			}
			if !answered {
				before++
			}
		}
	}
	s.put("before the result", before)
	s.put("after the result", len(all)-before)
	s.put("in order", ordered)
	if len(all) > 0 {
		s.add("first", all[0])
		s.add("last", all[len(all)-1])
	}
}

func runProgress(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, token := range []string{`"a\u00e9 token"`, `7`, `"7"`, `9007199254740993`} {
		id, from, times := p.id(), p.Client.Log.Len(), p.many(2000)
		e, err := p.await(ctx, token, p.start(id, "tools/call", ToolParams("count", fmt.Sprintf(`{"times":%d}`, times), token)))
		if err != nil {
			return nil, err
		}
		if err := p.fence(ctx); err != nil {
			return nil, err
		}
		s.put("token", token)
		s.add("result", e.Msg.Result)
		p.progressOf(token, id, from, &s)
	}
	return s.json(), nil
}

func runConcurrentProgress(ctx context.Context, p *Pair) ([]byte, error) {
	tokens := []string{`1`, `"1"`, `2`, `"2"`, `"x"`, `"\u0079"`, `0`, `""`}
	var s observation
	ids, from := make([]string, len(tokens)), p.Client.Log.Len()
	answers := make([]<-chan Answer, len(tokens))
	for i, token := range tokens {
		ids[i] = p.id()
		answers[i] = p.start(ids[i], "tools/call", ToolParams("count", fmt.Sprintf(`{"times":%d}`, p.many(200)), token))
	}
	for i := range tokens {
		if _, err := p.await(ctx, tokens[i], answers[i]); err != nil {
			return nil, err
		}
	}
	if err := p.fence(ctx); err != nil {
		return nil, err
	}
	for i, token := range tokens {
		s.put("token", token)
		p.progressOf(token, ids[i], from, &s)
	}
	return s.json(), nil
}

func runLarge(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, size := range []int{64 << 10, 1 << 20} {
		text := `"` + strings.Repeat(`x\u00e9`, size/7) + `"`
		got, err := p.call(ctx, "instead", `{"text":`+text+`}`)
		if err != nil {
			return nil, err
		}
		want := fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text)
		s.put(fmt.Sprintf("%d bytes intact", len(text)), bytes.Equal(got, want))
	}
	return s.json(), nil
}

// waiting starts a call of "wait" and returns once the server has received the call.
func (p *Pair) waiting(ctx context.Context, id, token string) (<-chan Answer, error) {
	from := p.Client.Log.Len()
	answer := p.start(id, "tools/call", ToolParams("wait", "{}", token))
	_, _, err := p.Client.Log.Find(ctx, "progress of wait", from, ProgressWith(token))
	return answer, err
}

func runCancel(ctx context.Context, p *Pair) ([]byte, error) {
	return cancelCalls(ctx, p, `,"reason":"en\u006fugh","_meta":{"n":9007199254740993},"x":1.0`, true)
}

// runCommonCancel is runCancel for pairs of different eras.
func runCommonCancel(ctx context.Context, p *Pair) ([]byte, error) {
	return cancelCalls(ctx, p, `,"reason":"enough"`, false)
}

// cancelCalls cancels calls, and uses their ids again. members are added to the notification. exact
// observes the notification at the server.
func cancelCalls(ctx context.Context, p *Pair, members string, exact bool) ([]byte, error) {
	var s observation
	for _, id := range []string{`"c\u00e9"`, `77`, `"77"`} {
		from := p.Client.Log.Len()
		if _, err := p.waiting(ctx, id, `"token of `+fmt.Sprint(len(id))+`"`); err != nil {
			return nil, err
		}
		request, err := p.arrived(ctx, "the call", CallOf("wait"))
		if err != nil {
			return nil, err
		}
		if err := p.cancel(id, members); err != nil {
			return nil, err
		}
		cancelled, err := p.arrived(ctx, "cancellation", CancelOf(request))
		if err != nil {
			return nil, err
		}
		if exact {
			s.add("cancelled", without(cancelled.Msg.Params, "requestId"))
		}
		if err := p.fence(ctx); err != nil {
			return nil, err
		}
		s.put("answered", p.answersSince(from, id))
		// The id is free again.
		e, err := p.await(ctx, "call "+id, p.start(id, "tools/call", ToolParams("instead", `{"text":"again"}`, "")))
		if err != nil {
			return nil, err
		}
		s.add("id", e.Msg.ID)
		s.add("result", e.Msg.Result)
		if p.from, err = p.after(ctx, cancelled); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

// answersSince counts the responses to a request.
func (p *Pair) answersSince(from int, id string) int {
	n, matches := 0, ResponseTo(id)
	for _, e := range p.Client.Log.All()[from:] {
		if matches(e) {
			n++
		}
	}
	return n
}

// runCancelStorm has many calls in flight and cancels all of them.
func runCancelStorm(ctx context.Context, p *Pair) ([]byte, error) {
	calls := p.many(200)
	start := p.Client.Log.Len()
	for i := range calls {
		id := fmt.Sprintf(`"storm-%d"`, i)
		p.start(id, "tools/call", ToolParams("wait", "{}", id))
	}
	for n, from := 0, start; n < calls; n++ { // one per call that the server has received
		e, next, err := p.Client.Log.Find(ctx, "progress of all calls", from, Method("notifications/progress"))
		if err != nil {
			return nil, err
		}
		from = next
		id, _ := wire.Get(e.Msg.Params, "progressToken")
		if err := p.cancel(string(id), ""); err != nil {
			return nil, err
		}
	}
	if _, err := p.call(ctx, "idle", "{}"); err != nil { // all of them have ended
		return nil, err
	}
	open := map[string]bool{}
	for n, from := 0, p.from; n < 2*calls; n++ {
		e, next, err := p.Server.Find(ctx, "calls and cancellations", from, func(e Entry) bool {
			id, _ := wire.Get(e.Msg.Params, "requestId")
			return CallOf("wait")(e) || open[wire.IDKey(id)] && !e.Msg.IsRequest()
		})
		if err != nil {
			return nil, err
		}
		from = next
		if e.Msg.IsRequest() {
			open[wire.IDKey(e.Msg.ID)] = true
			continue
		}
		id, _ := wire.Get(e.Msg.Params, "requestId")
		delete(open, wire.IDKey(id))
	}
	answered := 0
	for _, e := range p.Client.Log.All()[start:] {
		if id, ok := wire.GetString(e.Raw, "id"); ok && e.Msg.IsResponse() && strings.HasPrefix(id, "storm-") {
			answered++
		}
	}
	var s observation
	s.put("not cancelled", len(open))
	s.put("answered", answered)
	return s.json(), nil
}

// runTasks runs a task to completion, with progress, and cancels another.
func runTasks(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	id, err := p.startTask(ctx, &s, `"task token"`)
	if err != nil {
		return nil, err
	}
	about := `{"taskId":` + id + `,"_meta":{"n":9007199254740993},"x":1.0}`
	for n := 2; n < 4; n++ { // after the result of the call
		from := p.Client.Log.Len()
		if _, err := p.call(ctx, "task-step", fmt.Sprintf(`{"taskId":%s,"step":"progress","n":%d}`, id, n)); err != nil {
			return nil, err
		}
		e, _, err := p.Client.Log.Find(ctx, "progress of the task", from, ProgressWith(`"task token"`))
		if err != nil {
			return nil, err
		}
		s.add("progress", e.Msg.Params)
	}
	if err := p.statusAfter(ctx, &s, id, "status"); err != nil {
		return nil, err
	}
	for _, method := range []string{"tasks/get", "tasks/list"} {
		params := about
		if method == "tasks/list" {
			params = `{"_meta":{"n":9007199254740993}}`
		}
		if err := p.show(ctx, &s, method, params); err != nil {
			return nil, err
		}
	}
	result := p.Client.Start(p.id(), "tasks/result", about)
	if _, err := p.arrived(ctx, "tasks/result", Method("tasks/result")); err != nil {
		return nil, err
	}
	if err := p.statusAfter(ctx, &s, id, "completed"); err != nil {
		return nil, err
	}
	select {
	case a := <-result:
		if a.Err != nil {
			return nil, a.Err
		}
		s.add("tasks/result", without(a.Msg.Result, "received"))
	case <-ctx.Done():
		return nil, fmt.Errorf("no result of the task: %w", context.Cause(ctx))
	}
	if err := p.show(ctx, &s, "tasks/cancel", about); err != nil { // too late
		return nil, err
	}
	if id, err = p.startTask(ctx, &s, `9`); err != nil {
		return nil, err
	}
	if err := p.show(ctx, &s, "tasks/cancel", `{"taskId":`+id+`}`); err != nil {
		return nil, err
	}
	return s.json(), nil
}

// startTask makes a call that becomes a task and returns the task's raw id.
func (p *Pair) startTask(ctx context.Context, s *observation, token string) (string, error) {
	params := `{"name":"task","arguments":{},"task":{"ttl":9007199254740993,"x":1.0},"_meta":{"progressToken":` + token + `,"n":1.0}}`
	from := p.Client.Log.Len()
	e, err := p.request(ctx, "tools/call", params)
	if err != nil {
		return "", err
	}
	s.add("created", e.Msg.Result)
	id, ok := wire.Get(e.Msg.Result, "task", "taskId")
	if !ok {
		return "", fmt.Errorf("no task: %s%s", e.Msg.Result, e.Msg.Error)
	}
	progress, _, err := p.Client.Log.Find(ctx, "progress of the call", from, ProgressWith(token))
	if err != nil {
		return "", err
	}
	s.add("progress before", progress.Msg.Params)
	if e, err = p.arrived(ctx, "the call", CallOf("task")); err != nil {
		return "", err
	}
	s.add("at the server", withoutToken(e.Msg.Params))
	return string(id), nil
}

// statusAfter makes the task take a step and records the status notification.
func (p *Pair) statusAfter(ctx context.Context, s *observation, id, step string) error {
	from := p.Client.Log.Len()
	if _, err := p.call(ctx, "task-step", fmt.Sprintf(`{"taskId":%s,"step":%q}`, id, step)); err != nil {
		return err
	}
	e, _, err := p.Client.Log.Find(ctx, "tasks/status", from, Method("notifications/tasks/status"))
	if err == nil {
		s.add("status", e.Msg.Params)
	}
	return err
}

// show sends a request and records the answer and the params at the server.
func (p *Pair) show(ctx context.Context, s *observation, method, params string) error {
	e, err := p.request(ctx, method, params)
	if err != nil {
		return err
	}
	s.add(method, bytes.Join([][]byte{e.Msg.Result, e.Msg.Error}, nil))
	if e, err = p.arrived(ctx, method, Method(method)); err != nil {
		return err
	}
	s.add("at the server", withoutToken(e.Msg.Params))
	if strings.HasPrefix(method, "tasks/") {
		p.from, err = p.after(ctx, e)
	}
	return err
}
