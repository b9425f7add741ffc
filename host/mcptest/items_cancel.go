package mcptest

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
