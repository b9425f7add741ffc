package stateless

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Inbound handles a notification of the server that belongs to a subscription. Inbound returns the
// params of the notification without the members that only the era has. ok is false if no other
// receiver must see the notification. Inbound runs on the goroutine that reads the stream.
func (l *Link) Inbound(m wire.Inbound) (params []byte, ok bool) {
	id, tagged := wire.Get(m.Params, "_meta", envelope.KeySubscription)
	if m.Method == protocol.NotificationAcknowledged {
		l.acknowledged(string(id), tagged, m.Params)
		return nil, false
	}
	if !tagged {
		return m.Params, true
	}
	if !l.subscriptions.knows(string(id), l.opts.HTTP) {
		l.opts.Log.Debug("a notification of an unknown subscription was dropped", "method", link.Excerpt(m.Method))
		return nil, false
	}
	params, err := wire.Delete(m.Params, "_meta", envelope.KeySubscription)
	if err != nil {
		return m.Params, true
	}
	if meta, _ := wire.Get(params, "_meta"); string(meta) == "{}" {
		if rest, err := wire.Delete(params, "_meta"); err == nil {
			params = rest
		}
	}
	if string(params) == "{}" {
		params = nil
	}
	return params, true
}

// knows reports whether a notification belongs to a subscription of ours. withOld includes the
// subscription being handed over: on a separate stream, messages may be under way that the current
// subscription does not get. On a common stream they have come before the acknowledgement.
func (s *subscriptions) knows(id string, withOld bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening != nil && s.opening.id == id || s.current != nil && s.current.id == id {
		return true
	}
	return withOld && (s.leaving != nil && s.leaving.id == id || s.old != nil && s.old.id == id)
}

// acknowledged handles an acknowledgement. An acknowledgement without an id can only be for the
// subscription being opened.
func (l *Link) acknowledged(id string, tagged bool, params []byte) {
	s := &l.subscriptions
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.opening
	if next == nil || tagged && next.id != id {
		return
	}
	select {
	case <-next.acked:
		return
	default:
	}
	next.honoured = next.asked.honoured(params)
	if missing := len(next.asked.surfaces) - len(next.honoured.surfaces); missing > 0 {
		l.opts.Log.Warn("the server does not announce all changes of lists that its capabilities promise", "missing", missing)
	}
	close(next.acked)
}
