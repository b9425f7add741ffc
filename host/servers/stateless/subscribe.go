package stateless

import (
	"context"
	"errors"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

var errUnwatched = errors.New("the server does not watch this resource")

// subscribe translates resources/subscribe: the resource is added to the wanted filter.
func (l *Link) subscribe(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	uri, ok := wire.GetString(call.Params, "uri")
	if !ok {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "%s: params.uri must be a string", call.Method).Raw()}, nil
	}
	if err := wire.CheckPermit(call.Permit); err != nil {
		return wire.Reply{}, err
	}
	if limit.Idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit.Idle, l.opts.Errors.Timeout(call.Method, limit.Idle, false))
		defer cancel()
	}
	if l.subscriptions.has(uri) {
		return wire.Reply{Result: []byte("{}")}, nil
	}
	version := l.subscriptions.want(func(f *filter) {
		if i, found := slices.BinarySearch(f.uris, uri); !found {
			f.uris = slices.Insert(f.uris, i, uri)
		}
		delete(l.subscriptions.refused, uri)
	})
	honoured, err := l.awaitVersion(ctx, version)
	switch {
	case err == nil && slices.Contains(honoured.uris, uri):
		return wire.Reply{Result: []byte("{}")}, nil
	case err == nil:
		err = errUnwatched
		if refused := l.subscriptions.refusal(uri); refused != nil {
			err = refused
		}
	}
	l.drop(uri)
	var bad *wire.RPCError
	switch {
	case ctx.Err() != nil:
		return wire.Reply{}, context.Cause(ctx)
	case l.Err() != nil:
		return wire.Reply{}, l.Err()
	case errors.As(err, &bad):
		return wire.Reply{Error: bad.Raw()}, nil
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s: %s", call.Method, link.Excerpt(err.Error())).Raw()}, nil
}

// has reports whether the current subscription includes a resource.
func (s *subscriptions) has(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wanted := slices.BinarySearch(s.wanted.uris, uri)
	return wanted && s.current != nil && slices.Contains(s.current.honoured.uris, uri)
}

// awaitVersion waits for the outcome of a version, or of a later version, and returns the filter
// that the server has accepted.
func (l *Link) awaitVersion(ctx context.Context, version uint64) (filter, error) {
	s := &l.subscriptions
	for {
		s.mu.Lock()
		settled, moved := s.settled, s.moved
		s.mu.Unlock()
		if settled.version >= version {
			return settled.honoured, settled.err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return filter{}, context.Cause(ctx)
		case <-l.Done():
			return filter{}, l.Err()
		case <-l.ctx.Done():
			return filter{}, context.Cause(l.ctx)
		}
	}
}

// unsubscribe translates resources/unsubscribe.
func (l *Link) unsubscribe(call wire.Call) wire.Reply {
	uri, ok := wire.GetString(call.Params, "uri")
	if !ok {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "%s: params.uri must be a string", call.Method).Raw()}
	}
	l.drop(uri)
	return wire.Reply{Result: []byte("{}")}
}

// drop removes a resource from the wanted filter.
func (l *Link) drop(uri string) {
	s := &l.subscriptions
	s.mu.Lock()
	_, found := slices.BinarySearch(s.wanted.uris, uri)
	s.mu.Unlock()
	if found {
		s.want(func(f *filter) {
			f.uris = slices.DeleteFunc(f.uris, func(u string) bool { return u == uri })
			delete(s.refused, uri)
		})
	}
}

// errMissed means that notifications about a task may have been missed.
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
