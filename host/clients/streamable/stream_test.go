package streamable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestProgressOverHTTP(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	for _, tt := range []struct{ revision, first string }{
		{"2025-06-18", "id: 2.1\nevent: message\ndata: " + progressOf(1, 1) + "\n\n"},
		{"2025-11-25", "id: 2.0\nretry: 1000\ndata: \n\nid: 2.1\n"},
	} {
		g := w.join(tt.revision)
		body := read(t, g.post(callOf(1, "count", `{"times":3}`)))
		if !strings.HasPrefix(body, strings.ReplaceAll(tt.first, "2.", body[4:strings.Index(body, ".")+1])) {
			t.Errorf("%s: begins with %s", tt.revision, body)
		}
		e := g.stream("POST", callOf(1, "count", `{"times":3}`))
		e.want(progressOf(1, 1), progressOf(1, 2), progressOf(1, 3), pong)
		e.end()
	}
}

func TestAskOverPostStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	for _, session := range []string{"", `,"session":true`} { // without a GET stream, requests of the session use the stream of the POST too
		g := w.join("2025-11-25")
		e := g.stream("POST", callOf(1, "ask", `{"method":"roots/list"`+session+`}`))
		e.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		g.tell(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		e.want(`{"jsonrpc":"2.0","id":1,"result":{"answer":{"roots":[]}}}`)
		e.end()
	}
}

func TestAskOverGetStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ListenWindow: hour})
	g := w.join("2025-11-25")
	s := w.session()
	answer := make(chan wire.Reply)
	go func() {
		reply, err := s.Ask(context.Background(), wire.Call{Method: "roots/list"})
		if err != nil {
			t.Error(err)
		}
		answer <- reply
	}()
	e := g.stream("GET", "") // before the request or after it
	e.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	g.tell(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	if reply := <-answer; string(reply.Result) != `{"roots":[]}` {
		t.Errorf("got %s %s", reply.Result, reply.Error)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	failed := make(chan error)
	go func() {
		_, err := s.Ask(ctx, wire.Call{Method: "roots/list"})
		failed <- err
	}()
	e.want(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	cancel(errors.New("no longer wanted"))
	if err := <-failed; err.Error() != "no longer wanted" {
		t.Error(err)
	}
	e.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"no longer wanted"}}`)
}

func TestAskWithoutStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ListenWindow: instant})
	w.join("2025-11-25")
	if _, err := w.session().Ask(t.Context(), wire.Call{Method: "roots/list"}); !errors.Is(err, clients.ErrNotListening) {
		t.Error(err)
	}
}

// TestMainStream checks that messages are kept for a client that connects later, and
// resumes the stream twice.
func TestMainStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	s := w.session()
	say := func(n int) { s.Notify("notifications/message", fmt.Appendf(nil, "{\r\n\"n\":%d}", n)) }
	said := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{  "n":%d}}`, n)
	}
	say(1)
	for range 10 {
		s.Notify(wire.Tools.ChangedMethod(), nil)
	}
	say(2)
	e := g.stream("GET", "")
	e.want(said(1), changed(wire.Tools), said(2))
	if res := g.do(t.Context(), "GET", ""); res.StatusCode != 409 {
		t.Errorf("second GET: %s", res.Status)
	} else {
		read(t, res)
	}
	seen := e.last
	say(3)
	e.want(said(3)) // but pretend the loss of the message
	e2 := g.stream("GET", "", "Last-Event-ID", seen)
	e2.want(said(3))
	_ = e.silence() // the client has resumed the stream elsewhere, so this connection ends
	say(4)
	e2.want(said(4))
	e2.cancel()
	say(5)
	e3 := g.stream("GET", "", "Last-Event-ID", e2.last)
	e3.want(said(5))
	s.Changed(wire.Prompts, nil)
	e3.want(changed(wire.Prompts))
}

// TestListChangesAreMerged checks that a client that connects later gets a single notification for
// each changed list, whatever the params.
func TestListChangesAreMerged(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	s := w.session()
	notify := func(surface wire.Surface, params ...string) {
		for _, p := range params {
			var raw []byte
			if p != "" {
				raw = []byte(p)
			}
			s.Notify(surface.ChangedMethod(), raw)
		}
	}
	notify(wire.Tools, `{"n":1}`, `{"n":2}`, `{"n":2}`, ``, `{"n":3}`)
	s.Notify("notifications/tools/list_changed_too", nil)
	notify(wire.Prompts, `{"n":1}`, `{"n":1}`)
	notify(wire.Resources, ``, `{"n":1}`)
	e := g.stream("GET", "")
	e.want(changed(wire.Tools), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed_too"}`,
		string(wire.Notification(wire.Prompts.ChangedMethod(), []byte(`{"n":1}`))), changed(wire.Resources))
}

// TestListChangeAfterLostConnection checks that a change is announced again if the client may have
// received the earlier notification, although the write has failed.
func TestListChangeAfterLostConnection(t *testing.T) {
	t.Parallel()
	out := newStream(&session{handler: &Handler{opts: Options{Buffer: 1 << 20, Replay: 1 << 20}}}, 0)
	add := func(times int) {
		t.Helper()
		for range times {
			if err := out.add([]byte(changed(wire.Tools)), false); err != nil {
				t.Error(err)
			}
		}
	}
	add(2)
	e := newEventWriter(httptest.NewRecorder())
	if !out.attach(e, 0, true) {
		t.Fatal("not attached")
	}
	if n, _ := out.next(e, make([][]byte, 8)); n != 1 {
		t.Errorf("%d messages before the connection was lost", n)
	}
	out.detach(e)
	add(2)
	if n := len(out.messages); n != 2 {
		t.Errorf("%d messages, want the lost one and another", n)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Replay: 1000})
	g := w.join("2025-11-25")
	s := w.session()
	for i := range 1000 {
		s.Notify("notifications/message", fmt.Appendf(nil, `{"n":%d}`, i))
	}
	e := g.stream("GET", "")
	first := e.next()
	raw, _ := wire.Get([]byte(first), "params", "n")
	var n int
	fmt.Sscan(string(raw), &n)
	if n < 900 || n > 995 {
		t.Errorf("the first is %s", first)
	}
	for n++; n < 1000; n++ {
		e.want(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`, n))
	}
}

// TestResume checks that nothing is lost when the stream of a call breaks again and
// again.
func TestResume(t *testing.T) {
	t.Parallel()
	const times = 200
	w := newServer(t, Options{ResumeWindow: hour})
	g := w.join("2025-11-25")
	e := g.stream("POST", callOf(7, "count", fmt.Sprintf(`{"times":%d}`, times)))
	for i := range times {
		e.want(progressOf(7, i+1))
		if i%10 == 3 {
			e.cancel()
			e = g.stream("GET", "", "Last-Event-ID", e.last)
		}
	}
	e.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	last := e.last
	e.end()
	// The last event can also be requested again after the end of the stream.
	e = g.stream("GET", "", "Last-Event-ID", fmt.Sprintf("%s.%d", strings.Split(last, ".")[0], times))
	e.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	e.end()
}

// TestReleasedStreams checks that a stream holds no message when no client can resume the stream,
// even if another object still refers to the stream.
func TestReleasedStreams(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ResumeWindow: hour})
	g := w.join("2025-11-25")
	w.session()
	s := onlySession(t, w)
	for i := range 3 * maxFinished {
		e := g.stream("POST", callOf(i+1, "count", `{"times":3}`))
		for e.next() != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1) {
		}
		e.end()
	}
	streams := s.allStreams()
	if len(streams) < 10 {
		t.Fatalf("the session keeps %d streams, want more", len(streams))
	}
	dropped := s.openStream(nil)
	for range 2 {
		if err := dropped.Push(rpc.Frame{Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		s.drop(dropped)
	}
	resumed, e := s.openStream(nil), newEventWriter(httptest.NewRecorder())
	if err := resumed.Push(rpc.Frame{Data: []byte(`{}`)}); err != nil || !resumed.attach(e, 0, true) {
		t.Fatal("not attached: ", err)
	}
	s.drop(resumed)
	if n, _ := resumed.size(); n == 0 {
		t.Error("a message was dropped while it was being written")
	}
	resumed.detach(e)
	read(t, g.do(t.Context(), "DELETE", ""))
	for _, out := range append(streams, dropped, resumed) {
		if n, _ := out.size(); n > 0 || out.messages != nil || out.inline[0] != nil {
			t.Errorf("stream %d holds %d bytes", out.id, n)
		}
	}
}

func onlySession(t *testing.T, w *server) *session {
	t.Helper()
	w.http.mu.Lock()
	defer w.http.mu.Unlock()
	if len(w.http.sessions) != 1 {
		t.Fatalf("%d sessions, want 1", len(w.http.sessions))
	}
	for _, s := range w.http.sessions {
		return s
	}
	return nil
}

// TestResumeInFlight checks that the stream of a call in flight can be resumed.
func TestResumeInFlight(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ResumeWindow: hour})
	g := w.join("2025-11-25")
	e := g.stream("POST", callOf(1, "ask", `{"method":"roots/list"}`))
	e.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	e.cancel()
	e = g.stream("GET", "", "Last-Event-ID", e.last)
	g.tell(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	e.want(`{"jsonrpc":"2.0","id":1,"result":{"answer":{}}}`)
	e.end()
}

func TestDisconnectCancels(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ResumeWindow: instant})
	g := w.join("2025-11-25")
	gone := func() {
		t.Helper()
		if err := <-w.backend.Cancelled; !errors.Is(err, clients.ErrClientGone) {
			t.Errorf("cancelled with %v", err)
		}
	}
	// Before anything was sent:
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_, _ = g.http.Do(g.request(ctx, "POST", callOf(1, "wait", "{}")))
		close(done)
	}()
	<-w.backend.Waiting
	cancel()
	<-done
	gone()
	// With a stream that is not resumed in time:
	e := g.stream("POST", callOf(2, "ask", `{"method":"roots/list"}`))
	e.next()
	e.cancel()
	gone()
	// The session continues.
	if got := g.call(ping); got != pong {
		t.Error(got)
	}
}

// TestWithoutResumption checks streams that cannot be resumed: their events have no
// ids, and a disconnect cancels the call at once.
func TestWithoutResumption(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ResumeWindow: -1})
	g := w.join("2025-11-25")
	kind, got := g.body(callOf(7, "count", `{"times":1}`))
	want := "retry: 1000\n\nevent: message\ndata: " + progressOf(7, 1) +
		"\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
	if kind != "text/event-stream" || got != want {
		t.Errorf("%s\n%s\nwant\n%s", kind, got, want)
	}
	e := g.stream("POST", callOf(2, "ask", `{"method":"roots/list"}`))
	e.next()
	e.cancel()
	if err := <-w.backend.Cancelled; !errors.Is(err, clients.ErrClientGone) {
		t.Errorf("cancelled with %v", err)
	}
}

// TestTaskProgress checks that progress of a task goes to the main stream.
func TestTaskProgress(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	e := g.stream("GET", "")
	for id, tool := range []string{"late", "task"} {
		if got := g.call(callOf(id, tool, "{}")); !strings.Contains(got, "taskId") {
			t.Errorf("got %s", got)
		}
		(<-w.backend.After)()
	}
	e.want(`{"jsonrpc":"2.0","method":"notifications/late"}`, progressOf(1, 1), progressOf(1, 2))
}

func TestCancelledCallHasNoAnswer(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{KeepAlive: 2 * instant})
	g := w.join("2025-06-18")
	e := g.stream("POST", callOf(1, "wait", "{}"))
	g.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"bored"}}`)
	e.end()
	if err := <-w.backend.Cancelled; err.Error() != "cancelled by the client: bored" {
		t.Error(err)
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{KeepAlive: 5 * instant})
	g := w.join("2025-06-18")
	e := g.stream("POST", callOf(1, "wait", "{}"))
	get := g.stream("GET", "")
	for _, s := range []*events{e, get} {
		for range 3 {
			if _, comment, err := s.any(); comment != "keep-alive" {
				t.Fatalf("got %q, %v", comment, err)
			}
		}
	}
	w.backend.Release <- struct{}{}
	if got := e.next(); got != waited {
		t.Errorf("got %s", got)
	}
}

// TestStalledClient checks that the session of a client that stops reading ends, and
// that another client does not notice.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Buffer: 1 << 20})
	stalled := w.join("2025-11-25")
	s := w.session()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = stalled.request(t.Context(), "GET", "").Write(c)
	var head [4]byte
	if _, err := c.Read(head[:]); err != nil { // the client is connected, and no longer reads
		t.Fatal(err)
	}
	g := w.join("2025-11-25")
	params := []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	for open := true; open; {
		s.Notify("notifications/message", params)
		select {
		case gone := <-w.backend.Ended:
			if gone != s {
				t.Error("the wrong session has ended")
			}
			open = false
		default:
		}
		if got := g.call(ping); got != pong {
			t.Fatal(got)
		}
	}
	if res := stalled.post(ping); res.StatusCode != 404 {
		t.Errorf("the stalled client's session: %s", res.Status)
	}
}

// TestLargeMessages checks messages that are larger than any buffer.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	w := newServer(t, Options{Buffer: 1000, Replay: 1000})
	g := w.join("2025-11-25")
	s := w.session()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","x":"` + strings.Repeat("x", size) + `"}}`
	if got := g.call(call); len(got) < size || !strings.HasSuffix(got, `xx"}}}`) {
		t.Errorf("got %d bytes", len(got))
	}
	params := []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)
	s.Notify("notifications/large", params)
	e := g.stream("GET", "")
	if got := e.next(); len(got) < size {
		t.Errorf("got %d bytes", len(got))
	}
	s.Notify("notifications/large", params)
	s.Notify("notifications/small", nil)
	if got := e.next(); len(got) < size {
		t.Errorf("got %d bytes", len(got))
	}
	e.want(`{"jsonrpc":"2.0","method":"notifications/small"}`)
}
