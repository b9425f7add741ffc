package upstream

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	maxServing = 128 // requests of the server that OnRequest may work on at once
	maxAnswers = 256 // requests of the server that may wait until their answer is written
)

// inbound is a request of the server that OnRequest works on.
type inbound struct{ cancel context.CancelCauseFunc }

// read is the read loop.
func (c *Conn) read() {
	lines := newEdges(c.r, c.opts.MaxMessage)
	lines.unasked = c.unasked
	in := wire.NewReader(lines, c.opts.MaxMessage).Within(roomFor(c.ctx, c.opts.Budget))
	for {
		raw, err := in.Read()
		c.seen.Add(1)
		if err == nil {
			c.receive(raw)
		} else if !c.skipped(err, lines) {
			c.ended(err)
			return
		}
		c.seen.Add(1)
	}
}

// skipped handles a message that was too long; false if err is another error.
func (c *Conn) skipped(err error, lines *edges) bool {
	var large *wire.TooLargeError
	if !errors.As(err, &large) {
		return false
	}
	c.oversized(lines.pop(), large)
	return true
}

// receive takes one line. It may be a batch only under the revision that has
// them: elsewhere it would let a server make us hold many times its bytes.
func (c *Conn) receive(raw []byte) {
	if !c.batches.Load() {
		c.message(raw)
		return
	}
	items, batch, err := wire.Split(raw)
	switch {
	case !batch:
		c.message(raw)
	case err != nil:
		c.junk(err.Error(), raw)
	default:
		for _, item := range items {
			c.message(item)
		}
	}
}

func (c *Conn) message(raw []byte) {
	m, err := wire.ParseRepaired(raw)
	switch {
	case err != nil:
		c.malformed(m, err, raw)
	case m.IsResponse():
		c.answer(m, raw)
	case m.IsRequest():
		c.request(m)
	default:
		c.notification(m)
	}
}

// malformed refuses a request, and fails the call that a broken response was
// for, if that is clear.
func (c *Conn) malformed(m wire.Message, err error, raw []byte) {
	c.junk(err.Error(), raw)
	if m.IsRequest() {
		c.refuse(m.ID, err)
	}
	if m.Method == "" && (m.Result != nil || m.Error != nil) {
		if id, ok := ownID(m.ID); ok {
			c.reject(id, err)
		}
	}
}

// oversized fails the call whose response was skipped, if that is clear.
func (c *Conn) oversized(e excerpt, err *wire.TooLargeError) {
	c.junk(err.Error(), e.head)
	if id, ok := ownID(e.responseID()); ok {
		c.reject(id, err)
	}
}

func (c *Conn) reject(id int64, err error) {
	if p := c.take(id); p != nil {
		c.conclude(id, p, outcome{err: &AnswerError{Upstream: c.opts.Name, Method: p.method, Err: err}})
	}
}

func (c *Conn) answer(m wire.Message, raw []byte) {
	id, ok := ownID(m.ID)
	if p := c.take(id); ok && p != nil {
		reply := wire.Reply{Result: m.Result, Error: m.Error}
		if p.task { // before the caller gets the bytes, which are its own then
			c.tasks.begin(id, p.progress, reply.Result)
		}
		c.tasks.answered(p.method, p.params, reply)
		c.conclude(id, p, outcome{reply: reply})
		return
	}
	c.mu.Lock()
	tell, late := c.abandoned[id]
	delete(c.abandoned, id)
	if late {
		c.heeded(id)
	}
	issued := c.ids.issued(id)
	c.mu.Unlock()
	if ok && tell != nil {
		tell("an answer")
	}
	switch {
	case ok && late:
		c.log.Debug("late answer to a cancelled request dropped", "id", id)
	case ok && issued:
		c.junk("a second answer to one request", raw)
	case m.Error != nil && string(m.ID) == "null":
		c.junk("it could not read a message of ours: "+clip(wire.ParseError(m.Error).Message), raw)
	default:
		c.junk("an answer to a request that was never made", raw)
	}
}

func (c *Conn) notification(m wire.Message) {
	switch m.Method {
	case string(mcp.MethodNotificationProgress):
		c.progress(m)
	case string(mcp.MethodNotificationCancelled):
		c.takenBack(m.Params)
	default:
		c.unasked(len(m.Params))
		c.tasks.notified(m.Method, m.Params)
		if c.opts.OnNotification != nil {
			c.opts.OnNotification(wire.Inbound{Method: m.Method, Params: m.Params, Owners: c.current})
		}
	}
}

func (c *Conn) progress(m wire.Message) {
	token, _ := wire.Get(m.Params, "progressToken")
	id, _ := c.ids.ofToken(token)
	c.mu.Lock()
	p := c.pending[id]
	if p != nil && p.progress != nil {
		p.busy = true
	} else {
		p = nil
	}
	late := c.abandoned[id]
	c.mu.Unlock()
	if p == nil {
		c.unasked(len(m.Params)) // also of a task: it may go on for ever
		if late != nil {
			late("progress")
		}
		if taker := c.tasks.progress(id); taker != nil {
			taker(m.Params)
			return
		}
		c.log.Debug("progress for no request in flight dropped", "token", clip(string(token)))
		return
	}
	p.progress(m.Params)
	c.mu.Lock()
	p.busy = false
	idle := p.idle
	c.mu.Unlock()
	if idle != nil {
		close(idle)
	}
}

// request answers a request of the server. It waits only for a server that
// asks and asks and does not read the answers.
func (c *Conn) request(m wire.Message) {
	c.unasked(len(m.Params))
	if !c.admit() {
		return
	}
	if c.opts.OnRequest == nil || m.Method == string(mcp.MethodPing) {
		c.respond(m.ID, builtin(m.Method))
		return
	}
	select {
	case c.serving <- struct{}{}:
	default:
		c.respond(m.ID, wire.Reply{Error: wire.Errorf(wire.CodeInternal,
			"too many requests in flight (at most %d)", maxServing).Raw()})
		return
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	in, key := &inbound{cancel: cancel}, wire.IDKey(m.ID)
	c.mu.Lock()
	c.asked[key] = in
	c.mu.Unlock()
	owners := c.owners()
	c.wg.Go(func() {
		defer cancel(nil)
		reply := c.opts.OnRequest(ctx, wire.Inbound{Method: m.Method, Params: m.Params,
			Owners: func() []any { return owners }})
		c.mu.Lock()
		if c.asked[key] == in {
			delete(c.asked, key)
		}
		c.mu.Unlock()
		<-c.serving
		if ctx.Err() != nil {
			<-c.answers
			return
		}
		c.respond(m.ID, reply)
	})
}

// admit waits until the answer to another request of the server may wait; false
// when the connection ends before.
func (c *Conn) admit() bool {
	select {
	case c.answers <- struct{}{}:
		return true
	case <-c.out.done:
	case <-c.ctx.Done():
	}
	return false
}

// refuse answers a request that is none.
func (c *Conn) refuse(id []byte, err error) {
	var bad *wire.RPCError
	if errors.As(err, &bad) && c.admit() {
		c.respond(id, wire.Reply{Error: bad.Raw()})
	}
}

func (c *Conn) respond(id []byte, reply wire.Reply) {
	c.out.push(outgoing{msg: wire.Response(id, reply), answer: true})
}

func builtin(method string) wire.Reply {
	if method == string(mcp.MethodPing) {
		return wire.Reply{Result: []byte("{}")}
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", clip(method)).Raw()}
}

// unasked makes the server pay for what belongs to no call in flight. It is on the
// read loop, which waits when the server has sent too much.
func (c *Conn) unasked(bytes int) {
	c.opts.allowance.spend(bytes, c.ctx.Done(), c.opts.ended)
}

// takenBack cancels a request of the server.
func (c *Conn) takenBack(params []byte) {
	c.unasked(len(params))
	id, _ := wire.Get(params, "requestId")
	c.mu.Lock()
	in := c.asked[wire.IDKey(id)]
	c.mu.Unlock()
	if in == nil {
		c.log.Debug("cancellation of no request in flight dropped", "id", clip(string(id)))
		return
	}
	in.cancel(&wire.CancelledError{Params: params})
}

// junk reports what is no usable message.
func (c *Conn) junk(reason string, raw []byte) {
	c.unasked(len(raw))
	head := raw[:min(len(raw), maxExcerpt)]
	if more, ok := c.garbage.allow(); ok {
		attrs := []any{"reason", reason, "line", clip(string(head))}
		if more > 0 {
			attrs = append(attrs, "not_logged", more)
		}
		c.log.Warn("garbage from the server", attrs...)
	}
	if c.opts.OnGarbage != nil {
		c.opts.OnGarbage(reason, head)
	}
}

// ownID reads an id that we gave out: exactly the digits we wrote.
func ownID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || id <= 0 || raw[0] == '+' || raw[0] == '0' {
		return 0, false
	}
	return id, true
}

// clip makes what a peer wrote fit for a log or an error: at most 200 bytes,
// valid UTF-8, printable.
func clip(s string) string { return clipTo(s, 200) }

func clipTo(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return printable(strings.ToValidUTF8(s, "\uFFFD"))
}
