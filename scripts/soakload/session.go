package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// maxWait is how long an answer may take: more than the longest timeout of a
// server.
const maxWait = 45 * time.Second

// session is a session of a client. Its messages carry the session's mark. Every received message
// is checked: no mark of another session, no answer without a request, no second answer, no
// progress after the answer.
type session struct {
	s    *soak
	no   int
	kind string // for messages about failures
	mark string // "~12~"
	rnd  *rand.Rand
	*mcptest.Client

	modern bool // of the stateless era
	http   bool // a request of the stateless era is cancelled by closing the connection

	acks, updates atomic.Int64 // of subscriptions

	mu    sync.Mutex // guards the fields below
	last  int
	nulls int               // errors without an id
	asked map[string]*asked // by key of the id
	gone  bool              // the client has left, so missing answers are not failures
}

// asked are the requests with an id.
type asked struct {
	label     string
	sent      int // number of requests; only misbehaving clients reuse an id
	answers   int
	cancelled bool
	token     string        // raw; "" for none
	begun     chan struct{} // closed at the first progress
	told      bool          // begun has been closed
}

func (s *soak) newSession(kind string, rnd *rand.Rand) *session {
	s.tally.count(func(t *tally) { t.sessions++ })
	no := int(s.lastSession.Add(1))
	return &session{s: s, no: no, kind: kind, rnd: rnd, modern: isModern(kind), mark: fmt.Sprintf("~%d~", no), asked: map[string]*asked{}}
}

// options returns the options of the raw client.
func (c *session) options() mcptest.ClientOptions {
	return mcptest.ClientOptions{Each: c.received, Forget: true, OnRequest: c.answer}
}

// dialHTTP opens a session with the proxy over HTTP.
func (s *soak) dialHTTP(ctx context.Context, kind string, rnd *rand.Rand) (*session, error) {
	c := s.newSession(kind, rnd)
	c.http = true
	c.Client = mcptest.NewHTTP(s.host.url, c.options())
	return c, c.begin(ctx)
}

// begin initializes the session, or calls server/discover. On failure, the client is closed.
func (c *session) begin(ctx context.Context) error {
	if c.modern {
		got := c.answered(c.start("server/discover", "server/discover", "", ""))
		if !got.ok() {
			c.leave()
			c.Disconnect()
			return fmt.Errorf("server/discover: %s", clip(string(got.raw)))
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	c.expect(`"init"`, "initialize", "")
	_, err := c.Initialize(ctx, mcptest.ClientParams)
	if err != nil {
		c.leave()
		c.Disconnect()
	}
	return err
}

func (c *session) name() string { return fmt.Sprintf("%s session %d", c.kind, c.no) }

// expect records that a request is about to be sent.
func (c *session) expect(id, label, token string) {
	c.s.tally.count(func(t *tally) { t.requests++ })
	c.mu.Lock()
	defer c.mu.Unlock()
	key := wire.IDKey([]byte(id))
	a := c.asked[key]
	if a == nil {
		a = &asked{label: label, token: token, begun: make(chan struct{})}
		c.asked[key] = a
	}
	a.sent++
}

// id returns an id or token: alternately a small number that all sessions use, and a string with
// the mark.
func (c *session) id() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	if c.last%2 == 0 {
		return fmt.Sprint(c.last)
	}
	return fmt.Sprintf(`"%s%d"`, c.mark, c.last)
}

// request is a pending request.
type request struct {
	id, token, label string
	done             <-chan mcptest.Answer
}

// start sends a request.
func (c *session) start(label, method, params, token string) request {
	r := request{id: c.id(), token: token, label: label}
	c.expect(r.id, label, token)
	if c.modern {
		params = mcptest.Everyone.Params(params)
	}
	r.done = c.Client.Start(r.id, method, params)
	return r
}

// call starts a call of a tool, with a progress token of the call's own if progress is set.
func (c *session) call(tool, arguments string, progress bool) request {
	token := ""
	if progress {
		token = c.id()
	}
	return c.start(tool+" "+clip(arguments), "tools/call", mcptest.ToolParams(tool, arguments, token), token)
}

// cancel cancels a request.
func (c *session) cancel(r request) {
	c.forgets(r)
	if c.modern && c.http {
		c.Drop(r.id)
		return
	}
	_ = c.Notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":"soak %s"}`, r.id, c.mark))
}

// forgets records that a request need not be answered.
func (c *session) forgets(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[wire.IDKey([]byte(r.id))].cancelled = true
}

// outcome is how a request ended.
type outcome struct {
	result []byte // nil: a JSON-RPC error, or no answer
	failed bool   // isError
	err    error  // no answer
	raw    []byte
}

func (o outcome) ok() bool { return o.err == nil && o.result != nil && !o.failed }

// wait waits for the answer to a request, at most for maxWait. Without an answer, the outcome has
// an error.
func (c *session) wait(r request) outcome {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case a := <-r.done:
		var status *mcptest.StatusError
		if c.modern && errors.As(a.Err, &status) { // a refusal has a status of its own
			if m, err := wire.Parse(status.Body); err == nil && m.IsResponse() {
				c.received(mcptest.Entry{Raw: status.Body, Msg: m})
				return outcome{raw: status.Body}
			}
		}
		if a.Err != nil {
			return outcome{err: a.Err}
		}
		failed, _ := wire.Get(a.Msg.Result, "isError")
		return outcome{result: a.Msg.Result, failed: string(failed) == "true", raw: a.Raw}
	case <-timer.C:
		return outcome{err: fmt.Errorf("no answer within %v", maxWait)}
	}
}

// answered is like wait, but counts a missing answer as a failure.
func (c *session) answered(r request) outcome {
	o := c.wait(r)
	if o.err != nil {
		c.s.tally.fail("%s: %s (id %s): %v", c.name(), r.label, r.id, o.err)
	}
	return o
}

// received checks a message of the proxy, before requests waiting for the message complete.
func (c *session) received(e mcptest.Entry) {
	for rest := e.Raw; ; {
		at := bytes.IndexByte(rest, '~')
		if at < 0 {
			break
		}
		rest = rest[at:]
		end := bytes.IndexByte(rest[1:], '~')
		if end > 0 && end < 12 && digits(rest[1:end+1]) {
			if string(rest[:end+2]) != c.mark {
				c.s.tally.cross("%s got %s", c.name(), clip(string(e.Raw)))
				return
			}
			rest = rest[end+2:]
			continue
		}
		rest = rest[1:]
	}
	switch m := e.Msg; {
	case !json.Valid(e.Raw):
		c.s.tally.fail("%s got a message that is not JSON: %s", c.name(), clip(string(e.Raw)))
	case m.IsResponse() && (m.ID == nil || string(m.ID) == "null"):
		c.mu.Lock()
		c.nulls++
		c.mu.Unlock()
	case m.IsResponse():
		c.response(m, e.Raw)
	case m.Method == "notifications/progress":
		c.progress(m, e.Raw)
	case m.Method == "notifications/subscriptions/acknowledged":
		c.acks.Add(1)
	case m.Method == "notifications/resources/updated":
		c.updates.Add(1)
	case m.IsRequest() && c.modern:
		c.s.tally.fail("%s got a request: %s", c.name(), clip(string(e.Raw)))
	}
}

func digits(b []byte) bool {
	return len(b) > 0 && len(bytes.Trim(b, "0123456789")) == 0
}

func (c *session) response(m wire.Message, raw []byte) {
	c.mu.Lock()
	a := c.asked[wire.IDKey(m.ID)]
	if a != nil {
		a.answers++
	}
	c.mu.Unlock()
	switch {
	case a == nil:
		c.s.tally.cross("%s got an answer to a request that it did not make: %s", c.name(), clip(string(raw)))
	case a.answers > a.sent:
		c.s.tally.fail("%s: %s was answered %d times: %s", c.name(), a.label, a.answers, clip(string(raw)))
	default:
		failed, _ := wire.Get(m.Result, "isError")
		c.s.tally.count(func(t *tally) {
			t.answered++
			if m.Error != nil {
				t.refused++
			} else if string(failed) == "true" {
				t.isError++
			}
		})
	}
}

func (c *session) progress(m wire.Message, raw []byte) {
	token, _ := wire.Get(m.Params, "progressToken")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asked {
		if a.token == string(token) {
			if !a.told {
				a.told = true
				close(a.begun)
			}
			if a.answers >= a.sent && !a.cancelled {
				c.s.tally.fail("%s: progress of %s after its answer", c.name(), a.label)
			}
			return
		}
	}
	c.s.tally.cross("%s got progress for a request that it did not make: %s", c.name(), clip(string(raw)))
}

// started waits for the first progress of a request, at most half a second, and reports whether
// progress came.
func (c *session) started(r request) bool {
	c.mu.Lock()
	begun := c.asked[wire.IDKey([]byte(r.id))].begun
	c.mu.Unlock()
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-begun:
		return true
	case <-timer.C:
		return false
	}
}

// answer answers requests of servers. The answer carries the mark.
func (c *session) answer(_ *mcptest.Client, m wire.Message) wire.Reply {
	if m.Method == "ping" {
		return wire.Reply{Result: []byte("{}")}
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"roots":[],"x":%q}`, c.mark)}
}

// leave records that the client is gone and needs no more answers.
func (c *session) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

// close counts the missing answers and ends the session properly.
func (c *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	c.account()
	if err := c.Close(ctx); err != nil {
		c.s.tally.fail("%s: end: %v", c.name(), err)
	}
}

// vanish closes all connections without ending the session.
func (c *session) vanish() {
	c.leave()
	c.Disconnect()
	c.account()
}

// account counts the unanswered requests.
func (c *session) account() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asked {
		missing := a.sent - a.answers
		switch {
		case missing <= 0:
		case a.cancelled:
			c.s.tally.count(func(t *tally) { t.cancel += missing })
		case c.gone:
			c.s.tally.count(func(t *tally) { t.left += missing })
		default:
			c.s.tally.fail("%s: %s was not answered", c.name(), a.label)
		}
	}
}

// clip shortens a message for printing.
func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}
