package rpc

import (
	"errors"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/display"
	"github.com/mcp-metatool/mcp-metatool/host/limits"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Receive takes one frame of the peer: a message, or a batch in a revision that
// has them. It came on a stream, where the answers to its requests go, too. It
// returns as soon as they are registered. waits tells whether there is or was
// anything to answer: then Finish of the stream is called, perhaps before
// Receive returns. Parts of raw are kept.
//
// Receive waits while MaxAnswers answers are not written yet, while the peer
// sends too much that nobody asked for (Options.Unasked), and while a callback
// runs.
func (c *Conn) Receive(raw []byte, on Stream) (waits bool) {
	if c.batches.Load() {
		if items, ok, err := wire.Split(raw); ok {
			return c.receiveBatch(items, err, raw, on)
		}
	}
	m, err := c.parse(raw)
	return c.message(m, err, raw, on, nil)
}

// ReceiveMessage is Receive for what wire.Parse has made of raw, which is no
// batch.
func (c *Conn) ReceiveMessage(m wire.Message, err error, raw []byte, on Stream) (waits bool) {
	return c.message(m, err, raw, on, nil)
}

// IsBatch tells whether Receive takes raw for a batch.
func (c *Conn) IsBatch(raw []byte) bool {
	return len(raw) > 0 && raw[0] == '[' && c.batches.Load()
}

func (c *Conn) parse(raw []byte) (wire.Message, error) {
	if c.opts.Peer == Server {
		return wire.ParseRepaired(raw)
	}
	return wire.Parse(raw)
}

// message takes one message, of a batch if b is not nil.
func (c *Conn) message(m wire.Message, err error, raw []byte, on Stream, b *batch) (waits bool) {
	switch {
	case err != nil:
		return c.malformed(m, err, raw, on, b)
	case m.IsRequest():
		c.request(m, on, b)
		return true
	case m.IsNotification():
		c.notification(m, on)
	default:
		c.answered(m, raw, on)
	}
	return false
}

// WantsAnswer tells whether what wire.Parse has made of a message of a client has
// to be answered: a malformed response has not, nor has a notification whose
// params are refused.
func WantsAnswer(m wire.Message, err error) bool {
	var bad *wire.RPCError
	switch {
	case err == nil:
		return m.IsRequest()
	case errors.As(err, &bad) && bad.Code == wire.CodeInvalidParams:
		return m.IsRequest()
	}
	return m.Result == nil && m.Error == nil
}

// wantsAnswer is WantsAnswer for either kind of peer.
func (c *Conn) wantsAnswer(m wire.Message, err error) bool {
	if c.opts.Peer == Server {
		return m.IsRequest()
	}
	return WantsAnswer(m, err)
}

// malformed takes what is no message: it answers what wants an answer, and fails
// the call that a broken response was for, if that is clear.
func (c *Conn) malformed(m wire.Message, err error, raw []byte, on Stream, b *batch) (waits bool) {
	id, own := ownID(m.ID)
	if call, ok := on.(CallStream); ok {
		its, _ := call.Call()
		if m.Error != nil && IsErrorFor(raw, its) && !errors.Is(err, wire.ErrAmbiguous) { // nothing but the id is missing
			c.answeredBy(its, wire.Reply{Error: m.Error}, m, raw, on)
			return false
		}
		own = own && id == its
	}
	bad := &wire.RPCError{Code: wire.CodeInternal, Message: err.Error()}
	errors.As(err, &bad) // it always is
	if c.opts.Peer == Server {
		c.junk(err.Error(), raw)
	} else if !c.wantsAnswer(m, err) {
		c.log.Warn("malformed message of the client dropped", "method", clip(m.Method), "err", err)
	}
	if own && m.Method == "" && (m.Result != nil || m.Error != nil) {
		c.FailUnusable(id, err)
	}
	if !c.wantsAnswer(m, err) {
		return false
	}
	c.refuseMessage(m.ID, bad, on, b)
	return true
}

// reject answers a message of the peer that could not be read; its id is not
// known.
func (c *Conn) reject(err *wire.RPCError, on Stream) { c.refuseMessage(nil, err, on, nil) }

func (c *Conn) refuseMessage(id []byte, bad *wire.RPCError, on Stream, b *batch) {
	if b != nil || c.acquire() {
		c.respond(on, b, id, wire.Reply{Error: bad.Raw()})
	}
}

// Oversized takes a message that is larger than the cap, of which only an excerpt
// was kept. If it is clear which call it answers, that fails.
func (c *Conn) Oversized(e Excerpt, err *wire.TooLargeError, on Stream) {
	if c.opts.Peer == Client {
		c.reject(wire.Errorf(wire.CodeInvalidRequest, "invalid request: %s", limits.Explain(err)), on)
		return
	}
	c.junk(limits.Explain(err), e.Head)
	id, ok := ownID(e.responseID())
	if call, of := on.(CallStream); of {
		its, _ := call.Call()
		ok = ok && id == its
	}
	if ok {
		c.FailUnusable(id, err)
	}
}

// answered takes an answer of the peer.
func (c *Conn) answered(m wire.Message, raw []byte, on Stream) {
	id, ok := ownID(m.ID)
	if call, of := on.(CallStream); of {
		its, _ := call.Call()
		if !(ok && id == its || m.Error != nil && IsErrorFor(raw, its)) {
			c.junk("an answer with the id of another request than that of its stream", raw)
			return
		}
		id, ok = its, true
	}
	if !ok {
		id = 0
	}
	c.answeredBy(id, wire.Reply{Result: m.Result, Error: m.Error}, m, raw, on)
}

// answeredBy gives the call with that id, 0 for none, its answer.
func (c *Conn) answeredBy(id int64, reply wire.Reply, m wire.Message, raw []byte, on Stream) {
	task, elsewhere := "", false
	c.mu.Lock()
	if p := c.state.calls[id]; p != nil && p.asksTask {
		c.mu.Unlock()
		task = ongoingTask(reply.Result)
		c.mu.Lock()
	}
	p := c.state.calls[id]
	if p != nil && p.private && p.stream != on {
		p, elsewhere = nil, true
	}
	if p == nil {
		late, was := c.state.acknowledge(id)
		issued := c.state.ids.issued(id)
		c.mu.Unlock()
		c.stray(id, m, raw, late, elsewhere, was, issued)
		return
	}
	if task != "" { // before its token is taken away
		c.state.keepTask(p, task)
	}
	c.state.take(id)
	o := outcome{reply: reply}
	now, waits, single := c.state.settle(p, o), p.waits, p.single
	method, params := p.method, p.params
	c.mu.Unlock()
	if single != nil {
		single.Settled(true)
	}
	if params != nil { // before the caller owns the reply
		c.taskAnswered(method, params, reply)
	}
	if waits != nil {
		waits(nil)
	}
	if now {
		c.deliver(p, o)
	}
}

// stray takes an answer that no call waits for.
func (c *Conn) stray(id int64, m wire.Message, raw []byte, late func(string), elsewhere, cancelled, issued bool) {
	if late != nil {
		late("an answer")
	}
	switch {
	case elsewhere:
		c.junk("an answer to no request that waits for it here", raw)
	case cancelled:
		c.log.Debug("late answer to a cancelled request dropped", "id", id)
	case c.opts.Peer == Client:
		c.log.Debug("answer to a request that is not in flight dropped", "id", clip(string(m.ID)))
	case issued:
		c.junk("a second answer to one request", raw)
	case m.Error != nil && string(m.ID) == "null":
		c.junk("it could not read a message of ours: "+clip(wire.ParseError(m.Error).Message), raw)
	default:
		c.junk("an answer to a request that was never made", raw)
	}
}

// notification takes a notification of the peer.
func (c *Conn) notification(m wire.Message, on Stream) {
	switch m.Method {
	case protocol.NotificationProgress:
		c.progress(m.Params)
		return
	case protocol.NotificationCancelled:
		c.unasked(len(m.Params))
		c.cancelled(m.Params)
		return
	case protocol.NotificationTaskStatus:
		c.taskStatus(m.Params)
	}
	c.unasked(len(m.Params))
	c.opts.Handler.Notification(wire.Inbound{Method: m.Method, Params: m.Params, Owners: c.ownersOf(on)})
}

// ownersOf are the owners of what comes on a stream: the one of its call, or
// those of all calls where it carries more than one.
func (c *Conn) ownersOf(on Stream) func() []any {
	call, ok := on.(CallStream)
	if !ok {
		return c.current
	}
	return func() []any {
		if _, owner := call.Call(); owner != nil {
			return []any{owner}
		}
		return nil
	}
}

func (c *Conn) mainOwners() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.owners(time.Now())
}

// unasked makes the peer pay for what belongs to no call in flight.
func (c *Conn) unasked(bytes int) {
	if c.opts.Unasked != nil {
		c.opts.Unasked(bytes)
	}
}

// junk reports what is no usable message.
func (c *Conn) junk(reason string, raw []byte) {
	c.unasked(len(raw))
	head := raw[:min(len(raw), MaxExcerpt)]
	c.muted.Lock()
	more, ok := c.garbage.allow()
	c.muted.Unlock()
	if ok {
		attrs := []any{"reason", reason, "line", clip(string(head))}
		if more > 0 {
			attrs = append(attrs, "not_logged", more)
		}
		c.log.Warn("garbage from the "+c.opts.Peer.String(), attrs...)
	}
	if c.opts.Garbage != nil {
		c.opts.Garbage(reason, head)
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

// IsErrorFor tells whether raw is a JSON-RPC error for the request with that id,
// or one of a peer that had not read as far as the id, which is null then, or
// absent.
func IsErrorFor(raw []byte, id int64) bool {
	if version, _ := wire.GetString(raw, "jsonrpc"); version != "2.0" {
		return false
	}
	if _, ok := wire.Get(raw, "error", "code"); !ok {
		return false
	}
	given, ok := wire.Get(raw, "id")
	own, number := ownID(given)
	return !ok || string(given) == "null" || number && own == id
}

// clip is the beginning of what a peer wrote, for a log or an error.
func clip(s string) string { return display.Excerpt(s, 200) }
