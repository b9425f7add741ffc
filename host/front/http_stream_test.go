package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

func TestProgressOverHTTP(t *testing.T) {
	w := newWeb(t, HTTPOptions{})
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
	w := newWeb(t, HTTPOptions{})
	for _, session := range []string{"", `,"session":true`} { // without a GET stream the session's go there too
		g := w.join("2025-11-25")
		e := g.stream("POST", callOf(1, "ask", `{"method":"roots/list"`+session+`}`))
		e.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		g.tell(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		e.want(`{"jsonrpc":"2.0","id":1,"result":{"answer":{"roots":[]}}}`)
		e.end()
	}
}

func TestAskOverGetStream(t *testing.T) {
	w := newWeb(t, HTTPOptions{ListenWindow: hour})
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
	e := g.stream("GET", "") // comes before the request or behind it
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

func TestAskNobody(t *testing.T) {
	w := newWeb(t, HTTPOptions{ListenWindow: instant})
	w.join("2025-11-25")
	if _, err := w.session().Ask(t.Context(), wire.Call{Method: "roots/list"}); !errors.Is(err, ErrNotListening) {
		t.Error(err)
	}
}

// TestMainStream leaves messages for a client that listens later, and has it
// come back twice.
func TestMainStream(t *testing.T) {
	w := newWeb(t, HTTPOptions{})
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
	e.want(said(3)) // but pretend that it got lost
	e2 := g.stream("GET", "", "Last-Event-ID", seen)
	e2.want(said(3))
	_ = e.silence() // the client has come back, so the old connection is over
	say(4)
	e2.want(said(4))
	e2.cancel()
	say(5)
	e3 := g.stream("GET", "", "Last-Event-ID", e2.last)
	e3.want(said(5))
	s.Changed(wire.Prompts)
	e3.want(changed(wire.Prompts))
}

func TestBacklogIsBounded(t *testing.T) {
	w := newWeb(t, HTTPOptions{Replay: 1000})
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

// TestResume breaks the stream of a call again and again: nothing is lost.
func TestResume(t *testing.T) {
	const times = 200
	w := newWeb(t, HTTPOptions{ResumeWindow: hour})
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
	// The last event may have been lost as well, after the stream was over.
	e = g.stream("GET", "", "Last-Event-ID", fmt.Sprintf("%s.%d", strings.Split(last, ".")[0], times))
	e.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	e.end()
}

// TestStreamsLetGo: a stream that nobody can resume any more holds no message,
// whoever else keeps it in memory.
func TestStreamsLetGo(t *testing.T) {
	w := newWeb(t, HTTPOptions{ResumeWindow: hour})
	g := w.join("2025-11-25")
	w.session()
	v := only(t, w)
	for i := range 3 * maxFinished {
		e := g.stream("POST", callOf(i+1, "count", `{"times":3}`))
		for e.next() != answerTo(i+1) {
		}
		e.end()
	}
	all := v.all()
	if len(all) < 10 {
		t.Fatalf("%d streams are kept, want some", len(all))
	}
	dropped := v.open()
	if err := dropped.Write([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	v.drop(dropped)
	if err := dropped.Write([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	resumed, c := v.open(), newConn(httptest.NewRecorder())
	if err := resumed.Write([]byte(`{}`)); err != nil || !resumed.attach(c, 0, true) {
		t.Fatal("not attached: ", err)
	}
	v.drop(resumed)
	if n, _ := resumed.size(); n == 0 {
		t.Error("a message was dropped that is being delivered")
	}
	resumed.detach(c)
	read(t, g.do(t.Context(), "DELETE", ""))
	for _, s := range append(all, dropped, resumed) {
		if n, _ := s.size(); n > 0 || s.events != nil || s.one[0] != nil {
			t.Errorf("stream %d holds %d bytes", s.no, n)
		}
	}
}

// only is the one session there is.
func only(t *testing.T, w *web) *visit {
	t.Helper()
	w.http.mu.Lock()
	defer w.http.mu.Unlock()
	for _, v := range w.http.visits {
		return v
	}
	t.Fatal("there is no session")
	return nil
}

func answerTo(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

// TestResumeInFlight resumes the stream of a call that is still worked on.
func TestResumeInFlight(t *testing.T) {
	w := newWeb(t, HTTPOptions{ResumeWindow: hour})
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
	w := newWeb(t, HTTPOptions{ResumeWindow: instant})
	g := w.join("2025-11-25")
	gone := func() {
		t.Helper()
		if err := <-w.backend.cancelled; !errors.Is(err, errGone) {
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
	<-w.backend.waiting
	cancel()
	<-done
	gone()
	// With a stream that is not resumed in time:
	e := g.stream("POST", callOf(2, "ask", `{"method":"roots/list"}`))
	e.next()
	e.cancel()
	gone()
	// The session lives on.
	if got := g.call(ping); got != pong {
		t.Error(got)
	}
}

// TestTaskProgress has the progress of a task follow on the session's stream.
func TestTaskProgress(t *testing.T) {
	w := newWeb(t, HTTPOptions{})
	g := w.join("2025-11-25")
	e := g.stream("GET", "")
	for id, tool := range []string{"late", "task"} {
		if got := g.call(callOf(id, tool, "{}")); !strings.Contains(got, "taskId") {
			t.Errorf("got %s", got)
		}
		(<-w.backend.after)()
	}
	e.want(`{"jsonrpc":"2.0","method":"notifications/late"}`, progressOf(1, 1), progressOf(1, 2))
}

func TestCancelledCallHasNoAnswer(t *testing.T) {
	w := newWeb(t, HTTPOptions{KeepAlive: 2 * instant})
	g := w.join("2025-06-18")
	e := g.stream("POST", callOf(1, "wait", "{}"))
	g.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"bored"}}`)
	e.end()
	if err := <-w.backend.cancelled; err.Error() != "cancelled by the client: bored" {
		t.Error(err)
	}
}

func TestKeepAlive(t *testing.T) {
	w := newWeb(t, HTTPOptions{KeepAlive: 5 * instant})
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
	w.backend.release <- struct{}{}
	if got := e.next(); got != waited {
		t.Errorf("got %s", got)
	}
}

// TestStalledClient has one client stop reading. It is thrown out at last;
// another one notices nothing.
func TestStalledClient(t *testing.T) {
	w := newWeb(t, HTTPOptions{Buffer: 1 << 20})
	stalled := w.join("2025-11-25")
	s := w.session()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = stalled.request(t.Context(), "GET", "").Write(c)
	var head [4]byte
	if _, err := c.Read(head[:]); err != nil { // it is attached, and reads no further
		t.Fatal(err)
	}
	g := w.join("2025-11-25")
	params := []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	for open := true; open; {
		s.Notify("notifications/message", params)
		select {
		case gone := <-w.backend.left:
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

// TestLargeMessages are larger than any buffer.
func TestLargeMessages(t *testing.T) {
	const size = 16 << 20
	w := newWeb(t, HTTPOptions{Buffer: 1000, Replay: 1000})
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
