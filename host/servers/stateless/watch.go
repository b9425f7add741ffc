package stateless

import (
	"context"
	"errors"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// errMissed means: notifications about a task may have been missed.
var errMissed = errors.New("the subscription to the server has ended")

// watch answers the router's subscriptions/listen for a task of the extension: the task is listened
// to until ctx ends, together with everything else. After the server's acknowledgement,
// call.Progress gets the filter, and again whenever messages may have been missed before. The error
// is errMissed if the subscription has to begin anew.
func (l *Link) watch(ctx context.Context, call wire.Call) (wire.Reply, error) {
	raw, _ := wire.Get(call.Params, "notifications", "taskIds")
	items, _ := wire.Elements(raw)
	if len(items) != 1 || call.Progress == nil {
		return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", call.Method).Raw()}, nil
	}
	id, _ := wire.Text(items[0])
	s := &l.subscriptions
	_, seen, _ := s.missing(0)
	version := s.want(func(f *filter) { s.count(f, id, 1) })
	defer s.want(func(f *filter) { s.count(f, id, -1) })
	honoured, err := l.awaitVersion(ctx, version)
	switch {
	case ctx.Err() != nil:
		return wire.Reply{}, context.Cause(ctx)
	case l.Err() != nil:
		return wire.Reply{}, l.Err()
	case err != nil:
		return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s: %s", call.Method, link.Excerpt(err.Error())).Raw()}, nil
	case !slices.Contains(honoured.tasks, id):
		return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s: the server does not announce this task", call.Method).Raw()}, nil
	}
	told := filter{tasks: []string{id}}.params()
	call.Progress(told)
	for {
		missed, renewed, broken := s.missing(version)
		switch {
		case missed:
			return wire.Reply{}, errMissed
		case renewed != seen:
			seen = renewed
			call.Progress(told)
		}
		select {
		case <-broken:
		case <-ctx.Done():
			return wire.Reply{}, context.Cause(ctx)
		case <-l.Done():
			return wire.Reply{}, l.Err()
		case <-l.ctx.Done():
			return wire.Reply{}, context.Cause(l.ctx)
		}
	}
}

// count adds n to the calls that watch a task. The caller holds s.mu.
func (s *subscriptions) count(f *filter, id string, n int) {
	if s.tasks[id] += n; s.tasks[id] == 0 {
		delete(s.tasks, id)
	}
	at, listed := slices.BinarySearch(f.tasks, id)
	switch wanted := s.tasks[id] > 0; {
	case wanted && !listed:
		f.tasks = slices.Insert(f.tasks, at, id)
	case !wanted && listed:
		f.tasks = slices.Delete(f.tasks, at, at+1)
	}
}

// declareTasks returns a client's description of itself, with the extension for tasks.
func declareTasks(client []byte) []byte {
	if declared, err := wire.Set(client, []byte("{}"), "capabilities", "extensions", protocol.ExtensionTasks); err == nil {
		return declared
	}
	return client
}
