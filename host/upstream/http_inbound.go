package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// message takes one message that came on the stream of f, or on the one of the
// server's own messages if f is nil. It returns the outcome of f if the message
// is that. An answer with another id than that of the stream's request is never
// taken for its answer.
func (l *httpLink) message(raw []byte, f *flight) *outcome {
	m, err := wire.ParseRepaired(raw)
	switch {
	case err != nil:
		return l.malformed(m, err, raw, f)
	case m.IsResponse():
		return l.response(m, raw, f)
	case m.IsRequest():
		l.request(m, f)
	default:
		l.notification(m, f)
	}
	return nil
}

func (l *httpLink) malformed(m wire.Message, err error, raw []byte, f *flight) *outcome {
	if f != nil && m.Error != nil && isError(raw, f.id) && !errors.Is(err, wire.ErrAmbiguous) { // nothing but the id is missing
		return &outcome{reply: wire.Reply{Error: m.Error}}
	}
	l.junk(err.Error(), raw)
	var bad *wire.RPCError
	if m.IsRequest() && errors.As(err, &bad) {
		if l.admit() {
			l.work(func() { l.respond(m.ID, wire.Reply{Error: bad.Raw()}) })
		}
	}
	if id, ok := ownID(m.ID); ok && f != nil && id == f.id && m.Method == "" && (m.Result != nil || m.Error != nil) {
		return &outcome{err: l.useless(f, err)}
	}
	return nil
}

func (l *httpLink) response(m wire.Message, raw []byte, f *flight) *outcome {
	id, ok := ownID(m.ID)
	switch {
	case f != nil && (ok && id == f.id || m.Error != nil && isError(raw, f.id)):
		return &outcome{reply: wire.Reply{Result: m.Result, Error: m.Error}}
	case f != nil:
		l.junk("an answer with the id of another request than that of its stream", raw)
		return nil
	}
	l.mu.Lock()
	other := l.flights[id]
	var answer chan outcome
	if other != nil {
		answer = other.answer
	}
	l.mu.Unlock()
	if answer == nil {
		l.junk("an answer to no request that waits for it here", raw)
		return nil
	}
	select {
	case answer <- outcome{reply: wire.Reply{Result: m.Result, Error: m.Error}}:
	default: // it holds one already
		l.junk("a second answer to one request", raw)
	}
	return nil
}

func (l *httpLink) notification(m wire.Message, f *flight) {
	switch m.Method {
	case protocol.NotificationProgress:
		l.progress(m, f)
	case protocol.NotificationCancelled:
		l.takenBack(m.Params)
	default:
		l.unasked(len(m.Params))
		l.tasks.notified(m.Method, m.Params)
		l.opts.onNotification(wire.Inbound{Method: m.Method, Params: m.Params, Owners: l.ownersOf(f)})
	}
}

func (l *httpLink) progress(m wire.Message, f *flight) {
	token, _ := wire.Get(m.Params, "progressToken")
	id, _ := l.ids.ofToken(token)
	if f == nil || f.id != id {
		l.mu.Lock()
		f = l.flights[id]
		l.mu.Unlock()
	}
	if f != nil && f.deliver(m.Params) {
		return
	}
	l.unasked(len(m.Params)) // also of a task: it may go on for ever
	if taker := l.tasks.progress(id); taker != nil {
		taker(m.Params)
		return
	}
	l.log.Debug("progress for no request in flight dropped", "token", clip(string(token)))
}

// ownersOf are the owners of a message on the stream of f: that of f alone, or
// those of all calls if the stream is of none.
func (l *httpLink) ownersOf(f *flight) func() []any {
	switch {
	case f == nil:
		return l.owners
	case f.owners == nil:
		var owners []any
		if f.owner != nil {
			owners = []any{f.owner}
		}
		f.owners = func() []any { return owners }
	}
	return f.owners
}

// owners are those of calls just given up, then those of calls in flight, the
// oldest first.
func (l *httpLink) owners() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = expire(l.late, time.Now())
	all := slices.Clone(l.late)
	order := make([]int64, 0, len(l.flights))
	for id, f := range l.flights {
		if f.owner != nil {
			order = append(order, l.ids.nth(id))
		}
	}
	slices.Sort(order)
	owners := make([]any, 0, len(all)+len(order))
	for _, g := range all {
		owners = append(owners, g.owner)
	}
	for _, nth := range order {
		owners = append(owners, l.flights[l.ids.id(nth)].owner)
	}
	return owners
}

// request answers a request of the server, on a goroutine of its own. It waits
// only for a server that asks and asks and does not take the answers.
func (l *httpLink) request(m wire.Message, f *flight) {
	l.unasked(len(m.Params))
	if !l.admit() {
		return
	}
	var work func()
	switch {
	case m.Method == protocol.MethodPing:
		work = func() { l.respond(m.ID, builtin(m.Method)) }
	case !l.serve():
		work = func() {
			l.respond(m.ID, wire.Reply{Error: wire.Errorf(wire.CodeInternal,
				"too many requests in flight (at most %d)", maxServing).Raw()})
		}
	default:
		work = l.asking(m, l.ownersOf(f)())
	}
	l.work(work)
}

// admit waits until one more request of the server may be answered; false when
// the link ends before.
func (l *httpLink) admit() bool {
	select {
	case l.answers <- struct{}{}:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// work does what answers a request that was admitted.
func (l *httpLink) work(work func()) {
	l.start(func() {
		defer func() { <-l.answers }()
		work()
	})
}

func (l *httpLink) serve() bool {
	select {
	case l.serving <- struct{}{}:
		return true
	default:
		return false
	}
}

// asking registers a request of the server and returns what answers it.
func (l *httpLink) asking(m wire.Message, owners []any) func() {
	ctx, cancel := context.WithCancelCause(l.ctx)
	in, key := &inbound{cancel: cancel}, wire.IDKey(m.ID)
	l.mu.Lock()
	l.asked[key] = in
	l.mu.Unlock()
	return func() {
		defer cancel(nil)
		reply := l.opts.onRequest(ctx, wire.Inbound{Method: m.Method, Params: m.Params,
			Owners: func() []any { return owners }})
		l.mu.Lock()
		if l.asked[key] == in {
			delete(l.asked, key)
		}
		l.mu.Unlock()
		<-l.serving
		if ctx.Err() == nil {
			l.respond(m.ID, reply)
		}
	}
}

// respond posts the answer to a request of the server.
func (l *httpLink) respond(id []byte, reply wire.Reply) {
	ctx, cancel := context.WithTimeout(l.ctx, asideTime)
	defer cancel()
	if err := l.tell(ctx, "a request of the server", wire.Response(id, reply)); err != nil && l.ctx.Err() == nil {
		l.log.Warn("the answer to a request of the server was not taken", "id", clip(string(id)), "err", err)
	}
}

// takenBack cancels a request of the server.
func (l *httpLink) takenBack(params []byte) {
	l.unasked(len(params))
	id, _ := wire.Get(params, "requestId")
	l.mu.Lock()
	in := l.asked[wire.IDKey(id)]
	l.mu.Unlock()
	if in == nil {
		l.log.Debug("cancellation of no request in flight dropped", "id", clip(string(id)))
		return
	}
	in.cancel(&wire.CancelledError{Params: params})
}

// unasked makes the server pay for what belongs to no call in flight. Whoever reads
// the stream waits when the server has sent too much.
func (l *httpLink) unasked(bytes int) {
	l.opts.allowance.spend(bytes, l.ctx.Done(), nil)
}

// junk reports what is no usable message.
func (l *httpLink) junk(reason string, raw []byte) {
	l.unasked(len(raw))
	head := raw[:min(len(raw), maxExcerpt)]
	l.mu.Lock()
	more, ok := l.garbage.allow()
	l.mu.Unlock()
	if ok {
		attrs := []any{"reason", reason, "message", clip(string(head))}
		if more > 0 {
			attrs = append(attrs, "not_logged", more)
		}
		l.log.Warn("garbage from the server", attrs...)
	}
	l.opts.onGarbage(reason, head)
}

// listen reads the stream of what the server says on its own account, and opens
// it again whenever it ends, until the link ends or the server has none.
func (l *httpLink) listen() {
	at := cursor{retry: -1}
	opened := false
	for {
		resp, err := l.client.Do(l.ctx, http.MethodGet, nil, at.id, nil)
		switch {
		case l.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case err != nil:
			l.log.Debug("the stream of the server's own messages does not open", "err", l.failure(err))
			at.failures++
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			opened = true
			l.hears.Store(true)
			at.failures = 0
			l.hear(resp, &at)
		default:
			at.failures++
			if status := httpclient.NewStatusError(resp); !l.retriable(status, opened) {
				return
			}
		}
		if !at.wait(l.ctx) {
			return
		}
	}
}

// hear reads one stream to its end.
func (l *httpLink) hear(resp *http.Response, at *cursor) {
	events := newEventReader(resp.Body, l.max).behind(at.id).within(roomFor(l.ctx, l.opts.budget))
	events.unasked = l.unasked
	defer resp.Body.Close()
	defer events.release()
	for since, brought := time.Now(), false; ; brought = true {
		ev, err := l.next(events)
		if err != nil {
			at.at(events, brought || time.Since(since) > mostRetry, err)
			return
		}
		l.event(ev, nil)
	}
}

// retriable looks at the status that the stream was refused with. Servers that
// have none say 405; some say 404, which otherwise means a lost session.
func (l *httpLink) retriable(status *httpclient.StatusError, opened bool) bool {
	switch {
	case status.Status == http.StatusNotFound && opened && l.lostSession(status.Status):
		_ = l.lose()
		return false
	case status.Status/100 == 5 && status.Status != http.StatusNotImplemented,
		status.Status == http.StatusTooManyRequests, status.Status == http.StatusConflict:
		l.log.Debug("the stream of the server's own messages does not open", "err", status)
		return true
	}
	l.hears.Store(false)
	if status.Status != http.StatusMethodNotAllowed {
		l.log.Debug("the server has no stream of its own messages", "err", status)
	}
	return false
}
