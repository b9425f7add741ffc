package mcptest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// listener is an open subscriptions/listen.
type listener struct {
	call  *call
	kinds []string // the true members of the filter
	uris  []string
	tasks []string
	over  chan struct{} // closed when the server ends the subscription
}

// kindOf maps notifications to their member of the filter.
var kindOf = map[string]string{
	"notifications/tools/list_changed":     "toolsListChanged",
	"notifications/prompts/list_changed":   "promptsListChanged",
	"notifications/resources/list_changed": "resourcesListChanged",
}

// listen answers subscriptions/listen, when the subscription ends.
func (c *call) listen() wire.Reply {
	l := &listener{call: c, over: make(chan struct{})}
	var honoured []string
	for _, kind := range []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if raw, _ := wire.Get(c.msg.Params, "notifications", kind); string(raw) == "true" {
			l.kinds = append(l.kinds, kind)
			honoured = append(honoured, fmt.Sprintf(`%q:true`, kind))
		}
	}
	raw, _ := wire.Get(c.msg.Params, "notifications", "resourceSubscriptions")
	uris, _ := wire.Elements(raw)
	var quoted []string
	for _, raw := range uris {
		uri, ok := wire.Text(raw)
		if refuses := c.srv.sw.RefusesSubscription; refuses != nil && refuses(uri) {
			return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "no resource %s", uri).Raw()}
		}
		if ok && !strings.HasPrefix(uri, "unwatched:") {
			l.uris, quoted = append(l.uris, uri), append(quoted, string(raw))
		}
	}
	if quoted != nil {
		honoured = append(honoured, `"resourceSubscriptions":[`+strings.Join(quoted, ",")+`]`)
	}
	raw, _ = wire.Get(c.msg.Params, "notifications", "taskIds")
	ids, _ := wire.Elements(raw)
	if len(ids) > 0 {
		for _, raw := range ids {
			id, _ := wire.Text(raw)
			l.tasks = append(l.tasks, id)
		}
		honoured = append(honoured, `"taskIds":`+string(raw))
	}
	s := c.srv
	s.mu.Lock()
	before := s.listeners
	s.setListeners(append(slices.Clone(before), l))
	c.notify("notifications/subscriptions/acknowledged", []byte(`{"notifications":{`+strings.Join(honoured, ",")+`},`+l.tag()+`}`))
	if s.sw.OneSubscription {
		for _, other := range before {
			close(other.over)
		}
		s.setListeners([]*listener{l})
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.setListeners(slices.DeleteFunc(slices.Clone(s.listeners), func(other *listener) bool { return other == l }))
		s.mu.Unlock()
	}()
	select {
	case <-c.cancelled:
		if !s.sw.SharedSubscription {
			return wire.Reply{}
		}
		s.mu.Lock()
		for _, other := range s.listeners {
			other.kinds, other.uris = nil, nil
		}
		s.mu.Unlock()
		return result(`{"resultType":"complete",%s}`, l.tag())
	case <-l.over:
		return result(`{"resultType":"complete",%s}`, l.tag())
	}
}

// tag returns the _meta of messages of the subscription.
func (l *listener) tag() string {
	return fmt.Sprintf(`"_meta":{%q:%s}`, metaSubscription, l.call.msg.ID)
}

// Publish sends a notification to the interested subscriptions. params is a raw object without
// _meta; "" for an empty one.
func (s *Server) Publish(method, params string) {
	if params == "" {
		params = "{}"
	}
	uri, _ := wire.GetString([]byte(params), "uri")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		select {
		case <-l.call.cancelled: // the listener's goroutine has not removed the listener yet
			continue
		default:
		}
		if !slices.Contains(l.kinds, kindOf[method]) && (method != "notifications/resources/updated" || !slices.Contains(l.uris, uri)) {
			continue
		}
		separator := ","
		if params == "{}" {
			separator = ""
		}
		l.call.notify(method, []byte(strings.TrimSuffix(params, "}")+separator+l.tag()+"}"))
	}
}

// EndSubscriptions ends all subscriptions with their result.
func (s *Server) EndSubscriptions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		close(l.over)
	}
	s.setListeners(nil)
}

// BreakSubscriptions breaks the streams of all subscriptions. Over stdio the subscriptions are
// cancelled.
func (s *Server) BreakSubscriptions() {
	s.mu.Lock()
	all := s.listeners
	s.setListeners(nil)
	s.mu.Unlock()
	for _, l := range all {
		if _, ok := l.call.out.(*lineStream); ok {
			l.call.notify("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s,"reason":"shutting down"}`, l.call.msg.ID))
		} else {
			l.call.out.abort()
		}
		l.call.cancel()
	}
}

// setListeners sets the open subscriptions. The caller holds s.mu.
func (s *Server) setListeners(to []*listener) {
	s.listeners = to
	close(s.relistened)
	s.relistened = make(chan struct{})
}

// AwaitSubscriptions waits until n subscriptions are open. If ctx ends, the error wraps the cause
// and has the number of open subscriptions.
func (s *Server) AwaitSubscriptions(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		now, changed := len(s.listeners), s.relistened
		s.mu.Unlock()
		if now == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d subscriptions while there are %d: %w", n, now, context.Cause(ctx))
		}
	}
}
