package streamable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// isStateless reports whether a POST is of the stateless era according to the headers: the body has
// to agree. If the headers name an unknown revision, the body decides the error.
func isStateless(r *http.Request) bool {
	era := stateless.EraOfHeader(r.Header)
	return era == stateless.StatelessHeader || era == stateless.UnknownHeader
}

// postStateless answers a POST with headers of the stateless era, or of an unknown revision.
func (h *Handler) postStateless(w http.ResponseWriter, r *http.Request, access *policy, token bearer.Digest) {
	address := clientAddress(r.RemoteAddr)
	p, err := h.principalOf(token, address)
	var over *quotaError
	switch {
	case errors.As(err, &over):
		h.refuseUnread(w, r, refusal{http.StatusTooManyRequests, protocol.CodeHTTPRefused, err.Error()})
		return
	case err != nil:
		h.refuseUnread(w, r, refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, err.Error()})
		return
	}
	defer h.leavePrincipal(p, address)
	b, bad := h.readBody(w, r, route.BudgetKey(p.mcp), h.opts.Session.MaxMessage)
	defer b.release()
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	msg, err := wire.Parse(b.raw)
	switch {
	case err != nil:
		h.refuse(w, msg.ID, *malformed(err))
	case stateless.EraOfHeader(r.Header) == stateless.UnknownHeader && len(r.Header[sessionHeader]) > 0 && !stateless.IsStateless(msg):
		h.refuse(w, requestID(msg), *unknownVersion(r))
	case msg.Method == protocol.MethodInitialize && stateless.EraOfHeader(r.Header) == stateless.UnknownHeader && !envelope.IsPresent(msg.Params):
		h.initialize(w, r, access, token, msg, b.raw)
	case msg.IsRequest():
		h.answerStateless(w, r, p, msg, b.raw)
	case msg.IsNotification():
		w.WriteHeader(http.StatusAccepted) // none has any effect over HTTP
	default:
		h.refuse(w, nil, refusal{http.StatusBadRequest, wire.CodeInvalidRequest, "invalid request: a client of this revision does not send responses"})
	}
}

// requestID returns the id of a request, nil for other messages.
func requestID(m wire.Message) []byte {
	if m.IsRequest() {
		return m.ID
	}
	return nil
}

// answerStateless answers a request of the stateless era.
func (h *Handler) answerStateless(w http.ResponseWriter, r *http.Request, p *principal, msg wire.Message, raw []byte) {
	e, bad := stateless.Check(r.Header, msg)
	if bad == nil && msg.Method == protocol.MethodToolsCall && e.Revision.Has(protocol.StandardHeaders) {
		bad = h.checkParams(p, r.Header, msg.Params)
	}
	if bad != nil {
		h.refuseStateless(w, msg.ID, bad)
		return
	}
	if h.passOn(w, r, p, msg, raw) {
		return
	}
	params, err := envelope.Remove(msg.Params)
	if err != nil {
		h.refuseStateless(w, msg.ID, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", msg.Method, err))
		return
	}
	msg.Params = params
	out := newResponse(w, e, h.opts.Buffer, p.memory)
	p.serve(msg, out)
	err = out.write(w, r, &h.timers, h.opts.KeepAlive)
	if full := (*budget.FullError)(nil); errors.Is(err, errOverflow) || errors.As(err, &full) {
		h.log().Warn("request ended: its client does not read the messages", "principal", p.mcp.ID(), "buffer", h.opts.Buffer, "cause", limits.Explain(err))
	}
	p.served(out, err)
}

// checkParams compares the headers for arguments of a tool with the arguments.
func (h *Handler) checkParams(p *principal, header http.Header, params []byte) *wire.RPCError {
	name, _ := wire.GetString(params, "name")
	wanted := h.opts.Session.Backend.HeaderParams(p.mcp, name)
	if wanted.IsEmpty() {
		return nil
	}
	arguments, _ := wire.Get(params, "arguments")
	return wanted.CheckHeaders(header, arguments)
}

// refuseStateless answers a request of the stateless era with a wrong description of the request
// itself.
func (h *Handler) refuseStateless(w http.ResponseWriter, id []byte, bad *wire.RPCError) {
	status := http.StatusBadRequest
	if bad.Code == wire.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	writeJSON(w, status, wire.Response(id, wire.Reply{Error: bad.Raw()}))
}

// refusesEra refuses a message of the stateless era, judged by the body, with headers of another
// era. refusesEra returns false if the message is not of the stateless era.
func (h *Handler) refusesEra(w http.ResponseWriter, r *http.Request, msg wire.Message) bool {
	if !stateless.IsStateless(msg) {
		return false
	}
	if msg.IsNotification() { // a notification needs no header
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	bad := stateless.Contradicts(r.Header, msg)
	if bad == nil {
		_, bad = stateless.Check(r.Header, msg)
	}
	if bad == nil { // cannot happen: the headers are not of this era
		bad = envelope.Mismatch("the header %s is missing", envelope.HeaderVersion)
	}
	h.refuseStateless(w, msg.ID, bad)
	return true
}

// principal has the requests of the stateless era of all clients with the same token, in place of
// sessions. Each token has at most one principal, so the number of principals needs no limit.
type principal struct {
	handler *Handler
	token   bearer.Digest
	mcp     *stateless.Principal
	conn    *rpc.Conn       // each HTTP request is a separate stream
	memory  *budget.Account // messages that the clients have not read
	ended   chan struct{}   // closed when nothing is left of the principal

	requests  int                  // HTTP requests being served; guarded by Handler.mu
	from      map[netip.Prefix]int // the same, by address; guarded by Handler.mu
	idleSince time.Time            // when the last of them ended; guarded by Handler.mu
	serving   sync.WaitGroup       // HTTP requests that the end waits for

	mu   sync.Mutex // a leaf
	open map[*response]bool
}

// maxRequests bounds the requests of a principal in flight, including subscriptions.
const maxRequests = 4096

// principalOf returns the principal of a token, and begins the principal if necessary. The
// principal is not idle until the caller calls leavePrincipal. A single address cannot take all
// requests of a principal, since all clients without a token share a principal.
func (h *Handler) principalOf(token bearer.Digest, address netip.Prefix) (*principal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed || h.ctx.Err() != nil:
		return nil, errClosing
	case !h.policy.Load().accepts(token): // since the request was accepted
		return nil, errRevoked
	}
	p := h.principals[token]
	if p == nil {
		p = newPrincipal(h, token)
		h.principals[token] = p
		h.workers.Go(p.run)
	}
	if n := p.from[address]; n >= shareOfAddress(address, 0, maxRequests) {
		return nil, &quotaError{fmt.Sprintf("this address has %d requests in progress (try again later)", n)}
	}
	p.requests++
	p.from[address]++
	p.serving.Add(1) // under the lock: none is added once run waits
	return p, nil
}

func (h *Handler) leavePrincipal(p *principal, address netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.requests--
	if p.from[address]--; p.from[address] == 0 {
		delete(p.from, address)
	}
	p.idleSince = time.Now()
	p.serving.Done()
}

func newPrincipal(h *Handler, token bearer.Digest) *principal {
	p := &principal{handler: h, token: token, idleSince: time.Now(), from: map[netip.Prefix]int{}, ended: make(chan struct{}), open: map[*response]bool{}}
	opts := h.opts.Session
	opts.Rights = func() *bearer.Rights { return h.policy.Load().rights(token) }
	opts.TokenName = func() string { return h.policy.Load().name(token) }
	opts.Principal = token.Principal()
	of := opts.PrincipalOptions()
	of.ManyClients = true
	p.mcp = stateless.New(h.ctx, of)
	p.memory = opts.Budget.OpenUnread(route.BudgetKey(p.mcp), 0)
	p.conn = rpc.New(h.ctx, rpc.Options{
		Peer: rpc.Client, Main: noStream{}, Handler: p, SharedIDs: true,
		MaxRequests: maxRequests, KeepWorkers: opts.KeepWorkers, Log: opts.Log,
	})
	return p
}

// Request implements rpc.Handler.
func (p *principal) Request(r *rpc.Request) {
	if out, ok := r.Stream().(*response); ok {
		p.mcp.Serve(r, out.envelope)
		return
	}
	// The client has disconnected already.
	r.Reply(wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%v", clients.ErrClientGone).Raw()})
}

// Notification implements rpc.Handler. Over HTTP this era has no notifications of clients.
func (p *principal) Notification(wire.Inbound) {}

// serve passes a request on and returns the stream of the answer.
func (p *principal) serve(msg wire.Message, out *response) {
	p.mu.Lock()
	p.open[out] = true
	p.mu.Unlock()
	p.conn.ReceiveMessage(msg, nil, nil, out)
}

// served is called when the answer has been written, or cannot be.
func (p *principal) served(out *response, err error) {
	if err != nil {
		p.conn.Abandon(out, errors.Join(clients.ErrClientGone, err))
	}
	out.release()
	out.sink.finish()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, out)
}

// run waits for the end of the principal and releases the principal's resources.
func (p *principal) run() {
	h := p.handler
	<-p.conn.Done()
	h.mu.Lock()
	if h.principals[p.token] == p {
		delete(h.principals, p.token)
	}
	h.mu.Unlock()
	p.mcp.End(p.conn.Err())
	ok := p.conn.CloseWithin(closeTimeout, wire.ErrClosed) // requests in flight may still be answered
	ok = p.mcp.Close(closeTimeout) && ok
	for _, out := range p.responses() {
		out.Finish(rpc.Frame{}) // most are finished already
	}
	if !p.awaitRequests() || !ok {
		h.log().Warn("requests of a client did not end completely", "principal", p.mcp.ID())
	}
	p.memory.Close()
	close(p.ended)
}

// awaitRequests is session.awaitRequests.
func (p *principal) awaitRequests() bool {
	served := make(chan struct{})
	go func() {
		p.serving.Wait()
		close(served)
	}()
	if closedWithin(served, closeTimeout) {
		return true
	}
	for _, out := range p.responses() {
		out.sink.abort()
	}
	return closedWithin(served, closeTimeout)
}

// responses returns the responses being written.
func (p *principal) responses() []*response {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.open))
}

// removeIdlePrincipals removes and returns the principals that have been idle for too long. The
// caller holds h.mu.
func (h *Handler) removeIdlePrincipals(now time.Time) (idle []*principal) {
	for token, p := range h.principals {
		if p.requests == 0 && !p.mcp.Busy() && now.Sub(p.idleSince) > h.opts.SessionTTL {
			delete(h.principals, token)
			idle = append(idle, p)
		}
	}
	return idle
}

// noStream is the main stream of a principal: this era has no messages outside of
// requests.
type noStream struct{}

// TrySend implements rpc.Stream.
func (noStream) TrySend(f rpc.Frame) bool {
	f.Done(rpc.Unsent, clients.ErrNotListening)
	return true
}

// Send implements rpc.Stream.
func (n noStream) Send(_ context.Context, f rpc.Frame) error { return n.Push(f) }

// Push implements rpc.Stream.
func (n noStream) Push(f rpc.Frame) error {
	n.TrySend(f)
	return nil
}

// Withdraw implements rpc.Stream.
func (noStream) Withdraw(int64) bool { return true }

// Finish implements rpc.Stream.
func (noStream) Finish(f rpc.Frame) { f.Done(rpc.Unsent, nil) }

// response is the rpc.Stream of a request of the stateless era: the messages to the client for the
// request, which cannot be resumed. A response takes every message at once, and keeps the message
// until the goroutine of the HTTP request has written the message.
type response struct {
	envelope envelope.Envelope // of the request
	buffer   int               // see Options.Buffer
	sink     *eventSink
	memory   *budget.Account // of the principal
	wake     chan struct{}   // holds a token while something new waits

	mu       sync.Mutex // guards the fields below; a leaf
	messages [][]byte
	inline   [1][]byte
	waiting  int   // bytes of messages
	largest  int   // bytes of the largest message since none was waiting
	taken    int   // how many messages have been passed on
	closed   bool  // no message follows
	counted  int   // bytes of messages counted in memory
	over     bool  // too much was waiting
	full     error // the error of a message without memory, or nil
	lacked   bool  // see LacksMethod
}

func newResponse(w http.ResponseWriter, e envelope.Envelope, buffer int, memory *budget.Account) *response {
	out := &response{envelope: e, buffer: buffer, sink: newEventSink(w), memory: memory, wake: make(chan struct{}, 1)}
	out.messages = out.inline[:0]
	return out
}

// TrySend implements rpc.Stream.
func (s *response) TrySend(f rpc.Frame) bool { return s.add(f, false) }

// Send implements rpc.Stream.
func (s *response) Send(_ context.Context, f rpc.Frame) error { return s.Push(f) }

// Push implements rpc.Stream.
func (s *response) Push(f rpc.Frame) error {
	if !s.add(f, false) {
		return rpc.ErrFinished
	}
	return nil
}

// Withdraw implements rpc.Stream.
func (s *response) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream.
func (s *response) Finish(f rpc.Frame) { s.add(f, true) }

// LacksMethod implements stateless.MethodStream.
func (s *response) LacksMethod() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacked = true
}

// add adds a message, or none if msg is nil. last marks the last message. add returns false if the
// response is finished.
func (s *response) add(f rpc.Frame, last bool) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		if last {
			f.Done(rpc.Unsent, rpc.ErrFinished)
		}
		return false
	}
	// A single message of any size fits into the buffer.
	if s.waiting-s.largest > s.buffer {
		s.over = true
	}
	msg := f.Data
	if msg != nil && !s.over && s.full == nil {
		msg, s.full = afford(s.memory, msg, last)
	}
	if msg != nil && !s.over && s.full == nil {
		if s.waiting == 0 {
			s.largest = 0
		}
		s.largest = max(s.largest, len(msg))
		s.waiting += len(msg)
		s.counted += len(msg)
		s.messages = append(s.messages, msg)
	}
	s.closed = last
	lost := s.lost()
	s.mu.Unlock()
	if lost != nil {
		s.sink.abort()
		f.Done(rpc.Unsent, lost)
	} else {
		f.Done(rpc.Written, nil)
	}
	s.signal()
	return true
}

func (s *response) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // wake holds a token already
	}
}

// only returns the only message of a finished response, and the HTTP status for the message; ok is
// false for several messages, or none yet.
func (s *response) only() (msg []byte, status int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed || len(s.messages) != 1 || s.taken > 0 {
		return nil, 0, false
	}
	return s.messages[0], statusOf(s.messages[0], s.lacked), true
}

// next takes the waiting messages. ended means that no further messages follow.
func (s *response) next() (messages [][]byte, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, s.messages = s.messages, nil
	s.taken += len(messages)
	s.waiting = 0
	return messages, s.closed, s.lost()
}

// lost returns why messages were not kept; nil if all were. The caller holds s.mu.
func (s *response) lost() error {
	if s.over {
		return errOverflow
	}
	return s.full
}

// written records written messages.
func (s *response) written(messages [][]byte) {
	n := 0
	for _, msg := range messages {
		n += len(msg)
	}
	s.mu.Lock()
	s.counted -= n
	s.mu.Unlock()
	s.memory.Sub(n)
}

// release ends the counting of unwritten messages. No message is added afterwards.
func (s *response) release() {
	s.mu.Lock()
	n := s.counted
	s.counted, s.closed, s.messages = 0, true, nil
	s.mu.Unlock()
	s.memory.Sub(n)
}

// write writes the response to the client: as a JSON body if the answer is the only message, else
// as an event stream. The error says that the client has disconnected or does not read.
func (s *response) write(w http.ResponseWriter, r *http.Request, timers *sync.Pool, keepAlive time.Duration) error {
	timer := timers.Get().(*time.Timer)
	timer.Reset(keepAlive / 2)
	select {
	case <-s.wake:
	case <-timer.C:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	timer.Stop()
	timers.Put(timer)
	if msg, status, ok := s.only(); ok {
		if status != http.StatusOK || !prefersEvents(r) {
			if len(msg) > maxWrite { // a small message fits in the kernel's buffers
				s.sink.extendDeadline()
			}
			writeJSON(w, status, msg)
			return nil
		}
	}
	return s.stream(r.Context(), keepAlive)
}

// stream writes the response as an event stream.
func (s *response) stream(ctx context.Context, every time.Duration) error {
	if err := s.sink.begin(); err != nil {
		return err
	}
	alive := time.NewTicker(every)
	defer alive.Stop()
	for {
		messages, ended, err := s.next()
		for _, msg := range messages {
			if err == nil {
				err = s.sink.writeEvent(eventID{}, msg, false)
			}
		}
		if len(messages) > 0 && err == nil {
			err = s.sink.flush()
		}
		s.written(messages)
		if ended || err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-alive.C:
			err = s.sink.writeKeepAlive()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// statusOf returns the HTTP status for an answer. lacked is the result of stateless.Status.
func statusOf(msg []byte, lacked bool) int {
	raw, ok := wire.Get(msg, "error", "code")
	if !ok {
		return http.StatusOK
	}
	code, _ := strconv.Atoi(string(raw)) // 0 if raw is not a number
	return stateless.Status(code, lacked)
}
