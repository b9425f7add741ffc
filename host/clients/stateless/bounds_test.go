package stateless

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// newPair makes a principal and a connection for its requests. The test runs in a bubble.
func newPair(t *testing.T, backend Backend, parking *Parking) (*Principal, *rpc.Conn) {
	p := New(t.Context(), Options{
		Backend: backend, Parking: parking, InputTimeout: func() time.Duration { return time.Minute }, Log: slog.New(slog.DiscardHandler),
	})
	c := rpc.New(t.Context(), rpc.Options{
		Peer: rpc.Client, Main: &simulatedRequest{}, Handler: &simulation{principal: p}, SharedIDs: true, MaxRequests: 4096,
	})
	t.Cleanup(func() {
		c.Close(wire.ErrClosed)
		if !p.Close(time.Hour) {
			t.Error("the principal has not ended")
		}
	})
	return p, c
}

// abandoned is asking, but reports why its calls were cancelled.
type abandoned struct {
	asking
	causes chan error
}

func (b abandoned) Handle(ctx context.Context, call route.Call) wire.Reply {
	reply := b.asking.Handle(ctx, call)
	b.causes <- context.Cause(ctx)
	return reply
}

// TestParkedCallExpires checks that a call is cancelled when the client does not come back, and
// that a later retry is too late.
func TestParkedCallExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := abandoned{causes: make(chan error, 1)}
		p, c := newPair(t, b, nil)
		state, _ := wire.GetString(ask(c, "t", ""), "result", "requestState")
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		if len(b.causes) != 0 || !p.Busy() {
			t.Fatal("the call was cancelled too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if cause := <-b.causes; cause != errAbandoned || p.Busy() {
			t.Errorf("cancelled with %v", cause)
		}
		answer := string(ask(c, "t", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q1":{"roots":[]}}`, state)))
		if !strings.Contains(answer, "requestState is not valid") {
			t.Errorf("after that: %s", answer)
		}
	})
}

// TestParkedCallsAreBounded checks the bounds on parked calls of a principal, and of all principals
// with the same Parking.
func TestParkedCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parking Parking
		parked := func(c *rpc.Conn, most int) (n int, refusal string) {
			for range most {
				answer := ask(c, "t", "")
				if _, ok := wire.Get(answer, "result", "requestState"); !ok {
					return n, string(answer)
				}
				n++
			}
			return n, ""
		}
		_, first := newPair(t, asking{}, &parking)
		n, refusal := parked(first, maxParkedFor+1)
		if n != maxParkedFor || !strings.Contains(refusal, errParking.Error()) {
			t.Fatalf("%d calls are parked, then %s", n, refusal)
		}
		for total := n; total < maxParked; total += n {
			_, next := newPair(t, asking{}, &parking)
			if n, refusal = parked(next, maxParkedFor); refusal != "" {
				t.Fatalf("after %d calls: %s", total+n, refusal)
			}
		}
		_, last := newPair(t, asking{}, &parking)
		if n, refusal = parked(last, 1); n != 0 || !strings.Contains(refusal, errParking.Error()) {
			t.Errorf("%d calls more than %d are parked, then %s", n, maxParked, refusal)
		}
		time.Sleep(2 * time.Minute) // they expire
		synctest.Wait()
		if n, refusal = parked(last, 1); n != 1 {
			t.Errorf("when the others have expired: %s", refusal)
		}
	})
}

// listening is a backend that lets clients subscribe to resources.
type listening struct{ asking }

func (listening) AwaitServers(context.Context, route.Session) {}

func (listening) Discover(route.Session) route.InitializeResult {
	return route.InitializeResult{Capabilities: []byte(`{"resources":{"subscribe":true}}`)}
}

func (listening) Handle(context.Context, route.Call) wire.Reply {
	return wire.Reply{Result: []byte(`{}`)}
}

// slowStream is a stream that takes nothing before it is released.
type slowStream struct {
	answerStream
	released chan struct{}
	sent     int // after that
}

func (s *slowStream) TrySend(rpc.Frame) bool { return false }

func (s *slowStream) Send(ctx context.Context, f rpc.Frame) error {
	select {
	case <-s.released:
		s.sent++
		f.Done(rpc.Written, nil)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestSubscriberThatDoesNotRead checks that the updates waiting for a client are bounded: beyond
// the bound, the client's subscription ends.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := newPair(t, listening{}, nil)
		s := &slowStream{answerStream{answer: make(chan []byte, 1)}, make(chan struct{}), 0}
		c.Receive([]byte(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:"]}}}`), s)
		synctest.Wait()
		for i := range maxUpdates + 1 {
			for range 2 { // the second adds nothing
				p.Notify("notifications/resources/updated", fmt.Appendf(nil, `{"uri":"a:/%d"}`, i))
			}
		}
		close(s.released)
		answer := <-s.answer
		if id, _ := wire.GetString(answer, "result", "_meta", envelope.KeySubscription); id != "s" {
			t.Errorf("ended with %s", answer)
		}
		if s.sent != 1+maxUpdates {
			t.Errorf("%d notifications, want the acknowledgement and %d updates", s.sent, maxUpdates)
		}
	})
}

// TestSharedSubscription checks that servers are told only of the first and the last
// subscriber of a resource.
func TestSharedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{}
		p, c := newPair(t, b, nil)
		var streams []*answerStream
		for i := range 3 {
			s := &answerStream{answer: make(chan []byte, 1)}
			streams = append(streams, s)
			c.Receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:"]}}}`, i), s)
		}
		synctest.Wait()
		if got := strings.Join(b.methods, " "); got != "resources/subscribe" {
			t.Errorf("at first: %s", got)
		}
		for _, s := range streams {
			c.Abandon(s, errGone)
			synctest.Wait()
		}
		if got := strings.Join(b.methods, " "); got != "resources/subscribe resources/unsubscribe" {
			t.Errorf("at last: %s", got)
		}
		if len(p.uris) != 0 || len(p.listeners) != 0 {
			t.Errorf("%d resources and %d subscriptions are left", len(p.uris), len(p.listeners))
		}
	})
}

// counting records the requests for subscriptions.
type counting struct {
	listening
	methods []string // the test is in a bubble, and reads methods while no other goroutine runs
}

func (b *counting) Handle(_ context.Context, call route.Call) wire.Reply {
	b.methods = append(b.methods, call.Method)
	return wire.Reply{Result: []byte(`{}`)}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees the memory of cleanups
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestParkedCallsAreCounted checks that the memory of parked calls is counted for their principal,
// and that no more memory is kept, wherever in the requests the bytes are. Calls beyond the bound
// are refused with an error that names the bound, and nothing is left at the end.
func TestParkedCallsAreCounted(t *testing.T) {
	const size, calls = 1 << 20, 24
	x := strings.Repeat("x", size)
	for name, request := range map[string]string{
		"arguments":    `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"x":"` + x + `"},"_meta":{"progressToken":1}}}`,
		"_meta":        `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","_meta":{"x":"` + x + `"}}}`,
		"the envelope": `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","_meta":{}},"x":"` + x + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			shared := budget.New(256 << 20) // 16 MiB for parked calls
			p := New(t.Context(), Options{Backend: asking{}, Budget: shared, Principal: "p", Log: slog.New(slog.DiscardHandler)})
			c := rpc.New(t.Context(), rpc.Options{Peer: rpc.Client, Main: &simulatedRequest{}, Handler: &enveloped{p}, SharedIDs: true, MaxRequests: 4096})
			before := heap()
			parked, refused := 0, 0
			for i := range calls {
				s := &answerStream{answer: make(chan []byte, 1)}
				c.Receive(fmt.Appendf(nil, request, i), s)
				switch answer := string(<-s.answer); {
				case strings.Contains(answer, "requestState"):
					parked++
				case strings.Contains(answer, "no memory: the calls that wait for this client would be") && strings.Contains(answer, "max_total_memory"):
					refused++
				default:
					t.Fatalf("%.300s", answer)
				}
			}
			grown, counted := heap()-before, shared.Figures().Used
			t.Logf("%d parked, %d refused, %d bytes counted, %d more in use", parked, refused, counted, grown)
			if parked == 0 || grown > counted+size || counted > 16<<20 {
				t.Errorf("%d parked, %d refused, %d bytes counted, %d more in use", parked, refused, counted, grown)
			}
			c.Close(wire.ErrClosed)
			if !p.Close(time.Hour) {
				t.Error("the principal has not ended")
			}
			if f := shared.Figures(); f.Used != 0 {
				t.Errorf("at the end: %+v", f)
			}
		})
	}
}

// enveloped passes requests to a principal as front ends do.
type enveloped struct{ principal *Principal }

func (h *enveloped) Request(r *rpc.Request) {
	meta, _ := wire.Get(r.Params, "_meta")
	e := envelope.Envelope{Revision: protocol.Stateless.Newest(), Capabilities: meta, LogLevel: "info"}
	r.Params = append([]byte(nil), r.Params...)
	h.principal.Serve(r, e)
}

func (h *enveloped) Notification(wire.Inbound) {}
