package rpc

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Receive handles a frame of the peer: a message, or a batch in a revision with batches. on is the
// stream of the frame; answers to the frame's requests are sent on this stream. Receive returns as
// soon as the requests are registered. waits reports whether the frame has or had requests to
// answer; then Finish of the stream is called, perhaps before Receive returns. Parts of raw are
// kept.
//
// Receive waits while MaxAnswers answers are unwritten, while the peer sends too many unsolicited
// messages (Options.Unsolicited), and while a callback runs.
func (c *Conn) Receive(raw []byte, on Stream) (waits bool) {
	if c.batches.Load() {
		if items, ok, err := wire.Split(raw); ok {
			return c.receiveBatch(items, err, raw, on)
		}
	}
	m, err := c.parse(raw)
	return c.message(m, err, raw, on, nil)
}

// ReceiveMessage is Receive for the result of wire.Parse(raw). raw is not a batch.
func (c *Conn) ReceiveMessage(m wire.Message, err error, raw []byte, on Stream) (waits bool) {
	return c.message(m, err, raw, on, nil)
}

// IsBatch reports whether Receive treats raw as a batch.
func (c *Conn) IsBatch(raw []byte) bool {
	return len(raw) > 0 && raw[0] == '[' && c.batches.Load()
}

func (c *Conn) parse(raw []byte) (wire.Message, error) {
	if c.opts.Peer == Server {
		return wire.ParseRepaired(raw)
	}
	return wire.Parse(raw)
}

// message handles a message, which is part of a batch if b is not nil.
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

// WantsAnswer reports whether a message of a client has to be answered, given the result of
// wire.Parse. A malformed response gets no answer, nor does a notification with refused params.
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

// malformed handles a frame that is not a message: malformed sends the answer, if one is needed,
// and fails the call of a malformed response, if the call is known.
func (c *Conn) malformed(m wire.Message, err error, raw []byte, on Stream, b *batch) (waits bool) {
	bad := &wire.RPCError{Code: wire.CodeInternal, Message: err.Error()}
	errors.As(err, &bad) // always true
	id, own := ownID(m.ID)
	answers := m.Method == "" && (m.Result != nil || m.Error != nil)
	if bad.Code == wire.CodeParse { // the id can be readable nevertheless
		id, own = Excerpt{raw[:min(len(raw), MaxExcerpt)], raw[max(0, len(raw)-MaxExcerpt):]}.ResponseID()
		answers = own
	}
	if call, ok := on.(CallStream); ok {
		its, _ := call.Call()
		if m.Error != nil && !m.IsRequest() && IsErrorFor(raw, its) && !errors.Is(err, wire.ErrAmbiguous) { // only the id is missing
			c.answeredBy(its, wire.Reply{Error: m.Error}, m, raw, on)
			return false
		}
		own = own && id == its
	}
	if c.opts.Peer == Server {
		c.reportGarbage(err.Error(), raw)
	} else if !c.wantsAnswer(m, err) {
		c.log.Warn("malformed message of the client dropped", "method", excerpt(m.Method), "err", err)
	}
	if own && answers {
		c.failUnusable(id, err, on)
	}
	if !c.wantsAnswer(m, err) {
		return false
	}
	c.refuseMessage(m.ID, bad, on, b)
	return true
}

// reject answers a message of the peer that could not be read and has an unknown id.
func (c *Conn) reject(err *wire.RPCError, on Stream) { c.refuseMessage(nil, err, on, nil) }

func (c *Conn) refuseMessage(id []byte, bad *wire.RPCError, on Stream, b *batch) {
	if b != nil || c.acquire() {
		c.respond(on, b, id, wire.Reply{Error: bad.Raw()})
	}
}

// Oversized handles a message above the size limit, given an excerpt. If the answered call is
// known, the call fails.
func (c *Conn) Oversized(e Excerpt, err *wire.TooLargeError, on Stream) {
	if c.opts.Peer == Client {
		c.reject(wire.Errorf(wire.CodeInvalidRequest, "invalid request: %s", limits.Explain(err)), on)
		return
	}
	c.reportGarbage(limits.Explain(err), e.Head)
	id, ok := ownID(e.responseID())
	if call, of := on.(CallStream); of {
		its, _ := call.Call()
		ok = ok && id == its
	}
	if ok {
		c.failUnusable(id, err, on)
	}
}

// answered handles an answer of the peer.
func (c *Conn) answered(m wire.Message, raw []byte, on Stream) {
	id, ok := ownID(m.ID)
	if call, of := on.(CallStream); of {
		its, _ := call.Call()
		if !(ok && id == its || m.Error != nil && IsErrorFor(raw, its)) {
			c.reportGarbage("an answer with the id of another request than that of its stream", raw)
			return
		}
		id, ok = its, true
	}
	if !ok {
		id = 0
	}
	c.answeredBy(id, wire.Reply{Result: m.Result, Error: m.Error}, m, raw, on)
}

// answeredBy completes the call with the given id with an answer; 0 is the id of no call.
func (c *Conn) answeredBy(id int64, reply wire.Reply, m wire.Message, raw []byte, on Stream) {
	task, elsewhere := "", false
	c.mu.Lock()
	if p := c.state.calls[id]; p != nil && p.asksTask {
		c.mu.Unlock()
		task = ongoingTask(reply.Result)
		c.mu.Lock()
	}
	p := c.state.calls[id]
	if p != nil && p.ownStreamOnly && p.stream != on {
		p, elsewhere = nil, true
	}
	if p == nil {
		late, was := c.state.acknowledge(id)
		issued := c.state.ids.issued(id)
		c.mu.Unlock()
		c.strayAnswer(id, m, raw, late, elsewhere, was, issued)
		return
	}
	if task != "" { // before the call's token becomes invalid
		c.state.keepTask(p, task)
	}
	c.state.take(id)
	o := outcome{reply: reply, elsewhere: p.stream != on}
	now, stopSend, callStream := c.state.settle(p, o), p.stopSend, p.callStream
	method, params := p.method, p.params
	c.mu.Unlock()
	if callStream != nil {
		callStream.Settled(true, o.elsewhere)
	}
	if params != nil { // before the caller owns the reply
		c.taskAnswered(method, params, reply)
	}
	if stopSend != nil {
		stopSend(nil)
	}
	if now {
		c.deliver(p, o)
	}
}

// strayAnswer handles an answer without a waiting call.
func (c *Conn) strayAnswer(id int64, m wire.Message, raw []byte, late func(string), elsewhere, cancelled, issued bool) {
	if late != nil {
		late("an answer")
	}
	switch {
	case elsewhere:
		c.reportGarbage("an answer without a waiting request", raw)
	case cancelled:
		c.log.Debug("late answer to a cancelled request dropped", "id", id)
	case c.opts.Peer == Client:
		c.log.Debug("answer to a request that is not in flight dropped", "id", excerpt(string(m.ID)))
	case issued:
		c.reportGarbage("a second answer to one request", raw)
	case m.Error != nil && string(m.ID) == "null":
		c.reportGarbage("the peer could not read a message: "+excerpt(wire.ParseError(m.Error).Message), raw)
	default:
		c.reportGarbage("an answer to a request that was never made", raw)
	}
}

// notification handles a notification of the peer.
func (c *Conn) notification(m wire.Message, on Stream) {
	switch m.Method {
	case protocol.NotificationProgress:
		c.progress(m.Params)
		return
	case protocol.NotificationCancelled:
		c.charge(len(m.Params))
		c.cancelled(m.Params)
		return
	case protocol.NotificationTaskStatus:
		c.taskStatus(m.Params)
	}
	c.charge(len(m.Params))
	c.opts.Handler.Notification(wire.Inbound{Method: m.Method, Params: m.Params, Owners: c.ownersOn(on)})
}

// charge charges the peer for bytes outside of calls in flight.
func (c *Conn) charge(bytes int) {
	if c.opts.Unsolicited != nil {
		c.opts.Unsolicited(bytes)
	}
}

// reportGarbage reports an unusable message.
func (c *Conn) reportGarbage(reason string, raw []byte) {
	c.charge(len(raw))
	head := raw[:min(len(raw), MaxExcerpt)]
	c.garbageMu.Lock()
	more, ok := c.garbage.allow()
	c.garbageMu.Unlock()
	if ok {
		attrs := []any{"reason", reason, "line", excerpt(string(head))}
		if more > 0 {
			attrs = append(attrs, "not_logged", more)
		}
		c.log.Warn("garbage from the "+c.opts.Peer.String(), attrs...)
	}
	if c.opts.Garbage != nil {
		c.opts.Garbage(reason, head)
	}
}

// ownID parses an id of the proxy. Some peers return the id as a string of the same digits, or as
// the same number in another form, for example 123.0: they keep ids as strings or as floating-point
// numbers.
func ownID(raw []byte) (int64, bool) {
	text, quoted := strings.CutPrefix(string(raw), `"`)
	if quoted {
		text = strings.TrimSuffix(text, `"`)
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !quoted && len(text) <= maxNumber {
		const exact = 1 << 53 // floating-point numbers skip integers above this number
		if f, bad := strconv.ParseFloat(text, 64); bad == nil && f == math.Trunc(f) && math.Abs(f) <= exact {
			id, err = int64(f), nil
		}
	}
	if err != nil || id <= 0 || text[0] == '+' || text[0] == '0' {
		return 0, false
	}
	return id, true
}

// maxNumber is the length of the longest number read as an id, in bytes.
const maxNumber = 64

// IsErrorFor reports whether raw is a JSON-RPC error for the request with the given id, or an error
// from a peer that could not read the id; then the id is null or absent.
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

// excerpt makes text of a peer fit for logs and errors: the beginning, displayable.
func excerpt(s string) string { return display.Excerpt(s, 200) }
