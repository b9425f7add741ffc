// Package mcptest provides raw peers for tests: an MCP server and an MCP client that exchange
// JSON-RPC as bytes, over stdio, streamable HTTP (revision 2025-11-25, basic/transports) and the
// older HTTP+SSE (revision 2024-11-05), in the handshake era and in the stateless era (revision
// 2026-07-28). Both decode as little as possible, and so show how a proxy between them changes a
// message. Of the product they share only the parsing of a message in host/mcp/wire. Only tests and
// scripts/soak import this package.
//
// Start with [Server], [Client] and [Items], the fidelity list of exchanges that must look the same
// through a proxy as without one. Both peers record received messages in a [Log].
package mcptest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Server is a raw MCP server for any number of clients, which share the lists and tasks.
type Server struct {
	// Received has all received messages. The stream of an entry is "stdio", or for HTTP the id of
	// the session ("" before the session exists).
	Received *Log

	sw      ServerOptions
	process bool // the server has a process of its own, see Main

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	started  int // number of sessions so far
	items    map[wire.Surface][]string
	changes  int
	extended []*extended
	tasks    []*task
	served   map[string]int // answers by method or tool, for Fault.Skip and Times

	listeners    []*listener
	closed       bool          // see Close
	relistened   chan struct{} // closed and replaced when listeners changes
	regionHeader string        // see SetRegionHeader
}

// NewServer returns a server, without starting goroutines. The caller must close a server used over
// HTTP.
func NewServer(sw ServerOptions) *Server {
	if sw.Name == "" {
		sw.Name = "raw"
	}
	if sw.PageSize == 0 {
		sw.PageSize = 3
	}
	items := sw.Items
	if items == nil {
		items = definitions()
	}
	if sw.HeaderTools {
		items[wire.Tools] = append(items[wire.Tools], headerTools...)
	}
	return &Server{
		Received: &Log{}, sw: sw, sessions: map[string]*session{}, items: items, served: map[string]int{}, relistened: make(chan struct{}),
	}
}

// ForgetSessions ends all HTTP sessions as a restart would: their streams break, and from
// then on their ids are unknown (404).
func (s *Server) ForgetSessions() {
	for _, session := range s.all() {
		session.crash()
	}
}

// Sessions returns the number of sessions.
func (s *Server) Sessions() int { return len(s.all()) }

// Close ends all sessions and waits for their calls. From then on, sessions end as they
// begin: a request may have been under way.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, session := range s.all() {
		session.close()
		session.work.Wait()
	}
}

func (s *Server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.sessions))
	for _, session := range s.sessions {
		all = append(all, session)
	}
	return all
}

// session is the session of a client.
type session struct {
	srv    *Server
	id     string // unique, even if the client does not see the id
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// general is the stream for messages that belong to no request.
	general stream
	// broken ends the connection; see crash.
	broken func()

	mu             sync.Mutex // guards the fields below
	calls          map[string]*call
	arriving       map[string]bool // logged requests before received; true: cancelled
	left           chan struct{}   // closed when a call ends; nil if nothing waits
	pending        map[string]*pendingCall
	lastID         int
	stoppedReading bool // reads nothing more, and ignores the end of input
	closed         bool // accepts no more requests
	lastStream     int
	streams        map[string]*eventStream
}

// call is an inbound request.
type call struct {
	*session
	msg  wire.Message
	key  string
	tool string // of tools/call
	out  stream
	// cancelled is closed by notifications/cancelled and when the session ends.
	cancelled <-chan struct{}
	cancel    context.CancelFunc
}

// pendingCall is a request of the server to the client.
type pendingCall struct {
	answer   chan wire.Message // buffered, holds one
	token    string            // key of the call's progress token
	progress [][]byte          // raw params, guarded by the session
}

// newSession returns a session. An empty id is replaced by a new one. connect sets general and
// broken.
func (s *Server) newSession(id string, connect func(*session)) *session {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	if id == "" {
		id = fmt.Sprintf("session-%d", s.started)
	}
	session := &session{
		srv: s, id: id, ctx: ctx, cancel: cancel,
		calls: map[string]*call{}, arriving: map[string]bool{}, pending: map[string]*pendingCall{}, streams: map[string]*eventStream{},
	}
	connect(session)
	if s.closed {
		session.closed = true
		cancel()
		return session
	}
	s.sessions[session.id] = session
	return session
}

// close ends the session, cancels the calls and ends the streams.
func (s *session) close() {
	s.forget()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.general.end()
}

// crash ends the session abruptly. By the time the client notices, the session no
// longer exists.
func (s *session) crash() {
	s.forget()
	s.broken()
	s.close()
}

func (s *session) forget() {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	delete(s.srv.sessions, s.id)
}

// add records a message of the client, from HTTP. A test that sees a request in the log may cancel
// the request before received has seen it.
func (s *session) add(id string, raw []byte, header http.Header) Entry {
	if m, err := wire.Parse(raw); err == nil && m.IsRequest() && !s.srv.isModern(m) {
		s.mu.Lock()
		s.arriving[wire.IDKey(m.ID)] = false
		s.mu.Unlock()
	}
	return s.srv.Received.add(id, raw, header)
}

// received handles a message of the client. The answer to a request goes to out.
func (s *session) received(e Entry, out stream) {
	m := e.Msg
	switch {
	case m.Method == "" && m.Result == nil && m.Error == nil:
		_, err := wire.Parse(e.Raw)
		out.send(wire.Response(m.ID, wire.Reply{Error: wire.Errorf(wire.CodeParse, "raw server: %v", err).Raw()}), true)
	case m.IsRequest():
		ctx, cancel := context.WithCancel(s.ctx)
		c := &call{session: s, msg: m, key: wire.IDKey(m.ID), out: out, cancelled: ctx.Done(), cancel: cancel}
		if m.Method == "tools/call" {
			c.tool, _ = wire.GetString(m.Params, "name")
		}
		fault := s.srv.fault(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			cancel()
			out.abort()
			return
		}
		if s.arriving[c.key] {
			cancel()
		}
		delete(s.arriving, c.key)
		s.calls[c.key] = c
		s.stoppedReading = s.stoppedReading || fault.Kind == StopReading || fault.Kind == IgnoreShutdown
		s.work.Go(func() { c.serve(fault) })
	case m.IsResponse():
		s.mu.Lock()
		a := s.pending[wire.IDKey(m.ID)]
		delete(s.pending, wire.IDKey(m.ID))
		s.mu.Unlock()
		if a != nil {
			a.answer <- m
		}
	default:
		s.notified(m)
	}
}

func (s *session) notified(m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case "notifications/cancelled":
		id, _ := wire.Get(m.Params, "requestId")
		key := wire.IDKey(id)
		if _, ok := s.arriving[key]; ok {
			s.arriving[key] = true
		} else if c := s.calls[key]; c != nil {
			c.cancel()
		}
	case "notifications/progress":
		token, _ := wire.Get(m.Params, "progressToken")
		for _, a := range s.pending {
			if token != nil && a.token == wire.IDKey(token) {
				a.progress = append(a.progress, m.Params)
			}
		}
	}
}

// serve answers the request.
func (c *call) serve(fault Fault) {
	if fault.Kind == CrashBefore {
		c.crash()
	} else if reply := c.reply(); reply.Result != nil || reply.Error != nil {
		c.deliver(reply, fault)
	}
	c.cancel()
	c.out.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[c.key] == c { // and no later request with the same id
		delete(c.calls, c.key)
	}
	if c.left != nil {
		close(c.left)
		c.left = nil
	}
}

// waitForOthers waits until no other tool is running, and returns false if the call is cancelled.
func (c *call) waitForOthers() bool {
	for {
		others := 0
		c.mu.Lock()
		for _, o := range c.calls {
			if o != c && o.tool != "" {
				others++
			}
		}
		if c.left == nil {
			c.left = make(chan struct{})
		}
		left := c.left
		c.mu.Unlock()
		if others == 0 {
			return true
		}
		select {
		case <-left:
		case <-c.cancelled:
			return false
		}
	}
}

// notify sends a notification on the call's stream, without log messages that the client of a
// request of the stateless era has not asked for.
func (c *call) notify(method string, params []byte) {
	if _, wanted := wire.GetString(c.msg.Params, "_meta", metaLogLevel); method == "notifications/message" && !wanted && c.srv.isModern(c.msg) {
		return
	}
	c.out.send(wire.Notification(method, params), false)
}

// ask sends a request to the client and waits for the answer. ok is false if the
// call is cancelled first.
func (c *call) ask(method string, params []byte) (answer wire.Message, progress [][]byte, ok bool) {
	a := &pendingCall{answer: make(chan wire.Message, 1)}
	if token, has := wire.Get(params, "_meta", "progressToken"); has {
		a.token = wire.IDKey(token)
	}
	c.mu.Lock()
	c.lastID++
	id := fmt.Sprint(c.lastID)
	if c.srv.sw.StringIDs {
		id = fmt.Sprintf(`"ask-%d"`, c.lastID)
	}
	c.pending[wire.IDKey([]byte(id))] = a
	c.mu.Unlock()
	msg := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s`, id, wire.Quote(method))
	if params != nil {
		msg = append(append(msg, `,"params":`...), params...)
	}
	c.out.send(append(msg, '}'), false)
	select {
	case answer = <-a.answer:
		c.mu.Lock()
		defer c.mu.Unlock()
		return answer, a.progress, true
	case <-c.cancelled:
		return wire.Message{}, nil, false
	}
}

// ServeStdio serves a client over newline-delimited messages until in ends or the server crashes.
// Then ServeStdio cancels the calls, waits for them, and closes in and out if they are io.Closers.
// After the faults StopReading and IgnoreShutdown, only Close lets ServeStdio return.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) {
	finish := func() {
		closeIt(out)
		closeIt(in)
	}
	lines := &lineStream{w: out, broken: func() { closeIt(out) }}
	session := s.newSession("", func(session *session) {
		session.general = lines
		session.broken = func() {
			if s.process {
				fmt.Fprintln(os.Stderr, "mcptest: told to crash")
				os.Exit(3)
			}
			finish()
		}
	})
	session.read(bufio.NewReaderSize(in, 64<<10), lines)
	session.close()
	session.work.Wait()
	finish()
}

func closeIt(v any) {
	if c, ok := v.(io.Closer); ok {
		_ = c.Close()
	}
}

// read handles lines until in ends.
func (s *session) read(r *bufio.Reader, out stream) {
	lines(r, func(line []byte) {
		s.received(s.srv.Received.add("stdio", line, nil), out)
		s.mu.Lock()
		stopped := s.stoppedReading
		s.mu.Unlock()
		if stopped {
			alive := time.AfterFunc(time.Hour, func() {}) // otherwise the runtime may report a deadlock
			<-s.ctx.Done()
			alive.Stop()
		}
	})
}
