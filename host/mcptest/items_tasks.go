package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
