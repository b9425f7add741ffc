package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
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

// limiter allows 10 log records in 10 seconds and counts the rest.
type limiter struct {
	from    time.Time // start of the current window
	allowed int       // in the current window
	skipped int       // since the last record
}

const (
	limiterBurst  = 10
	limiterWindow = 10 * time.Second
)

// allow reports whether to log now, and how many records were skipped before.
func (l *limiter) allow() (skipped int, ok bool) {
	if now := time.Now(); now.Sub(l.from) >= limiterWindow {
		l.from, l.allowed = now, 0
	}
	if l.allowed == limiterBurst {
		l.skipped++
		return 0, false
	}
	l.allowed++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}

// MaxExcerpt is the number of bytes kept of each end of an oversized message.
const MaxExcerpt = 256

// Excerpt is the beginning and the end of a skipped, oversized message, at most MaxExcerpt bytes
// each.
type Excerpt struct{ Head, Tail []byte }

// lineSampler is an io.Reader that passes a stream on to a wire.Reader, and keeps excerpts of the
// oversized lines that the wire.Reader will skip.
type lineSampler struct {
	r     io.Reader
	limit int // bytes of a line including the ending, as in wire.Reader
	n     int // bytes of the current line so far
	line  Excerpt
	long  []Excerpt // complete ones, oldest first
	blank bool      // the current line has only white space so far

	// unsolicited is called with the number of bytes outside of messages: blank lines, and bytes
	// above the limit. May be nil.
	unsolicited func(bytes int)
}

func newLineSampler(r io.Reader, max int) *lineSampler {
	if max <= 0 {
		max = wire.DefaultMaxMessage
	}
	return &lineSampler{r: r, limit: max + len("\r\n"), blank: true}
}

func (l *lineSampler) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		l.add(part)
		if whole {
			l.n++
			l.endLine()
		}
		rest = after
	}
	if err != nil {
		l.endLine()
	}
	return n, err
}

func (l *lineSampler) add(part []byte) {
	if room := MaxExcerpt - len(l.line.Head); room > 0 {
		l.line.Head = append(l.line.Head, part[:min(room, len(part))]...)
	}
	before := l.n
	l.n += len(part)
	l.blank = l.blank && len(bytes.TrimSpace(part)) == 0
	if over := l.n - max(before, l.limit); over > 0 && l.unsolicited != nil {
		l.unsolicited(over)
	}
	if l.n > l.limit-MaxExcerpt {
		tail := append(l.line.Tail, part[max(0, len(part)-MaxExcerpt):]...)
		l.line.Tail = tail[max(0, len(tail)-MaxExcerpt):]
	}
}

func (l *lineSampler) endLine() {
	if l.blank && l.n > 0 && l.unsolicited != nil {
		l.unsolicited(l.n)
	}
	l.blank = true
	if l.n > l.limit {
		l.long = append(l.long, l.line)
		l.line = Excerpt{}
	}
	l.n, l.line.Head, l.line.Tail = 0, l.line.Head[:0], l.line.Tail[:0]
}

// pop returns the excerpt of the line just skipped by the wire.Reader.
func (l *lineSampler) pop() Excerpt {
	if l == nil || len(l.long) == 0 {
		return Excerpt{}
	}
	x := l.long[0]
	l.long = l.long[1:]
	return x
}

// lastID matches the end of an object in which a numeric id is the last member, or the last before
// jsonrpc. In valid JSON no text inside a string or a nested value can match: the closing brace
// belongs to the message, and a quote inside a string has a backslash before it.
var lastID = lazyregexp.New(`,\s*"id"\s*:\s*("?[0-9][0-9.eE+]*"?)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// ResponseID returns the id of the proxy's request that the message answers.
func (x Excerpt) ResponseID() (id int64, ok bool) { return ownID(x.responseID()) }

// responseID returns the raw id if the excerpt belongs to a response, or nil. In a response, result
// or error begins within the head. The id is then in the head too, or at the very end, where the
// TypeScript SDK writes the id.
func (x Excerpt) responseID() []byte {
	var id []byte
	var name string
	d := jsontext.NewDecoder(bytes.NewReader(x.Head), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for first := true; ; first = false {
		tok, err := d.ReadToken()
		if err != nil || first != (tok.Kind() == '{') || !first && tok.Kind() != '"' {
			return nil
		}
		if first {
			continue
		}
		name = tok.String()
		value, err := d.ReadValue()
		if name == "method" {
			return nil
		}
		if err != nil {
			break // the excerpt ends within this long member
		}
		if name == "id" {
			id = bytes.Clone(value)
		}
	}
	if name != "result" && name != "error" {
		return nil
	}
	if id != nil {
		return id
	}
	if m := lastID.FindSubmatch(x.Tail); m != nil {
		return m[1]
	}
	return nil
}

// ReadLines reads newline-delimited messages from r (stdio transport, revision 2025-11-25,
// basic/transports) and receives them on the main stream. ReadLines returns the error of r. max is
// the size limit of a message in bytes, 0 for wire.DefaultMaxMessage. Large messages are counted in
// budget, which may be nil.
func (c *Conn) ReadLines(r io.Reader, max int, budget *wire.ReadBudget) error {
	var lines *lineSampler // nil for a client: all long lines get the same answer
	if c.opts.Peer == Server {
		if max <= 0 {
			max = wire.DefaultMaxMessage
		}
		max, _ := budget.Limit(max)
		lines = newLineSampler(r, max)
		lines.unsolicited = c.opts.Unsolicited
		r = lines
	}
	in := wire.NewReader(r, max).WithBudget(budget)
	for {
		raw, err := in.Read()
		c.heard.Add(1)
		if err == nil && in.Ended() && c.opts.Peer == Server && !json.Valid(raw) {
			c.reportGarbage("a truncated message", raw) // the end of the process explains more about the call
		} else if err == nil {
			c.Receive(raw, c.opts.Main)
		} else if !c.skipped(err, lines) {
			return err
		}
		c.heard.Add(1)
	}
}

// skipped handles an oversized message. It returns false for any other err.
func (c *Conn) skipped(err error, lines *lineSampler) bool {
	var large *wire.TooLargeError
	if !errors.As(err, &large) {
		return false
	}
	c.Oversized(lines.pop(), large, c.opts.Main)
	return true
}

// Heard returns twice the number of messages read by ReadLines, garbage included, plus one during
// the processing of a message.
func (c *Conn) Heard() int64 { return c.heard.Load() }
