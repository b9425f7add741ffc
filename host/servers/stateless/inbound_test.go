package stateless

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestForeignSubscriptions checks that a notification with a subscription is only taken if the
// subscription is ours, and still open. A notification without a subscription is taken, because
// servers forget the subscription; the notification only causes another reading.
func TestForeignSubscriptions(t *testing.T) {
	const everywhere, overHTTP = 2, 1
	for id, taken := range map[string]int{
		`"_meta":{"io.modelcontextprotocol/subscriptionId":4}`:    everywhere, // being opened
		`"_meta":{"io.modelcontextprotocol/subscriptionId":3}`:    everywhere, // current
		`"_meta":{"io.modelcontextprotocol/subscriptionId":2}`:    overHTTP,   // leaves
		`"_meta":{"io.modelcontextprotocol/subscriptionId":1}`:    overHTTP,   // old
		`"_meta":{"io.modelcontextprotocol/subscriptionId":0}`:    0,          // has ended
		`"_meta":{"io.modelcontextprotocol/subscriptionId":9}`:    0,          // of another subscriber
		`"_meta":{"io.modelcontextprotocol/subscriptionId":"3"}`:  0,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":3.0}`:  0,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":null}`: 0,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":[3]}`:  0,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":""}`:   0,
		`"_meta":{}`: everywhere,
		`"x":1`:      everywhere,
	} {
		for _, http := range []bool{false, true} {
			l := Link{opts: Options{HTTP: http, Log: slog.New(slog.DiscardHandler)}}
			s := &l.subscriptions
			s.init()
			s.opening, s.current = &subscription{id: "4", acked: make(chan struct{})}, &subscription{id: "3"}
			s.leaving, s.old = &subscription{id: "2"}, &subscription{id: "1"}
			_, ok := l.Inbound(wire.Inbound{Method: "notifications/tools/list_changed", Params: []byte("{" + id + "}")})
			if want := taken == everywhere || taken == overHTTP && http; ok != want {
				t.Errorf("%s, HTTP: %t: taken: %t", id, http, ok)
			}
			_, ok = l.Inbound(wire.Inbound{Method: "notifications/subscriptions/acknowledged", Params: []byte("{" + id + `,"notifications":{}}`)})
			acknowledged := false
			select {
			case <-s.opening.acked:
				acknowledged = true
			default:
			}
			ours := map[string]bool{`"_meta":{"io.modelcontextprotocol/subscriptionId":4}`: true, `"_meta":{}`: true, `"x":1`: true}
			if ok || acknowledged != ours[id] {
				t.Errorf("%s: passed on: %t, acknowledged: %t", id, ok, acknowledged)
			}
		}
	}
}

// hook is a slog.Handler that calls a function for each message.
type hook func()

// Enabled implements slog.Handler.
func (h hook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h hook) Handle(context.Context, slog.Record) error { h(); return nil }

// WithAttrs implements slog.Handler.
func (h hook) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h hook) WithGroup(string) slog.Handler { return h }

// TestLeavingCounts checks that a notification of the previous subscription is taken while another
// subscription takes over, also before the previous subscription is the old subscription: at the
// moment when the old subscription is ended, which writes to the log here.
func TestLeavingCounts(t *testing.T) {
	below := rpc.New(t.Context(), rpc.Options{Peer: rpc.Server, Main: rpc.NewWriter(nil)}) // for ended subscriptions
	looked, taken := 0, 0
	l := Link{opts: Options{HTTP: true}}
	l.opts.Log = slog.New(hook(func() {
		if looked++; looked > 1 { // a dropped notification is logged, too
			return
		}
		if _, ok := l.Inbound(wire.Inbound{Method: "notifications/tools/list_changed", Params: []byte(`{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}`)}); ok {
			taken++
		}
	}))
	s := &l.subscriptions
	s.init()
	pending, err := below.Submit(rpc.Call{Call: wire.Call{Method: "subscriptions/listen"}}, func(wire.Reply, wire.Continuation) {})
	if err != nil {
		t.Fatal(err)
	}
	below.Close(errors.New("the end"))
	s.old = &subscription{id: "1", ended: make(chan struct{}), over: time.NewTimer(time.Hour), pending: pending}
	close(s.old.ended)
	s.replaced = maxReplaced
	s.current = &subscription{id: "2", asked: filter{surfaces: []wire.Surface{wire.Tools}}, ended: make(chan struct{}), pending: pending}
	if err := l.open(); err != nil { // nothing is wanted
		t.Error(err)
	}
	if looked == 0 || taken != 1 {
		t.Errorf("%d notifications are taken, %d messages logged", taken, looked)
	}
	if s.knows("2", true) {
		t.Error("the subscription that has left is known")
	}
}
