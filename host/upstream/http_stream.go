package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	// lingerTime is how long a stream is read on after the answer, so that the
	// server can end it and its connection be used again.
	lingerTime = 2 * time.Second
	// usualRetry is the wait before a stream is resumed if the server has not
	// said one, and leastRetry the shortest one it can ask for.
	usualRetry = 250 * time.Millisecond
	leastRetry = 10 * time.Millisecond
	// mostRetry is the longest wait that grows with failures.
	mostRetry = 30 * time.Second
	// maxResumes is how often in a row resuming the stream of a call may fail.
	maxResumes = 5
)

// cursor is where a stream is to be resumed.
type cursor struct {
	id       string        // of the last event; "" for none
	retry    time.Duration // asked for by the server; negative for none
	broken   bool          // the last stream broke off: its server may be gone
	failures int           // of connecting, in a row
	idle     int           // streams that brought nothing, in a row
}

// at takes over where a reader is at the end of its stream, which err is why
// of. brought tells whether there was anything in it.
func (c *cursor) at(e *eventReader, brought bool, err error) {
	c.broken = !errors.Is(err, io.EOF)
	if string(e.lastID) != c.id {
		c.id = string(e.lastID)
		brought = true
	}
	if e.retry >= 0 {
		c.retry = e.retry
	}
	c.idle++
	if brought {
		c.idle = 0
	}
}

// wait waits as long as the server asks for, and longer where that leads to
// nothing. It tells whether ctx is still good.
func (c *cursor) wait(ctx context.Context) bool {
	d, tries := usualRetry, c.failures+c.idle
	if c.retry >= 0 {
		d, tries = max(c.retry, leastRetry), c.failures
	}
	if c.broken && c.retry < 0 && tries == 0 {
		d = leastRetry // callers wait to know
	}
	if tries > 1 {
		d = min(max(d, mostRetry), d<<min(tries-1, 10))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rest is a stream whose answer is read already.
type rest struct {
	link   *httpLink
	flight *flight
	body   io.ReadCloser
	events *eventReader
}

// drain reads what the server still has to say, but not for long.
func (r *rest) drain(cancel context.CancelFunc) {
	defer cancel()
	defer time.AfterFunc(lingerTime, cancel).Stop()
	for {
		ev, err := r.link.next(r.events)
		if err != nil {
			break
		}
		if o := r.link.event(ev, r.flight); o != nil {
			r.link.junk("a second answer to one request", ev.data)
		}
	}
	r.body.Close()
	r.events.release()
}

// exchange posts a request and reads its answer. rest is not nil if the stream
// may have more than that.
func (l *httpLink) exchange(ctx context.Context, f *flight, msg []byte) (wire.Reply, *rest, error) {
	resp, err := l.client.Do(ctx, http.MethodPost, msg, "", f.permit)
	if err != nil {
		return wire.Reply{}, nil, err
	}
	if f.method == protocol.MethodInitialize && resp.StatusCode == http.StatusOK {
		if err := l.client.SetSession(resp.Header); err != nil {
			resp.Body.Close()
			return wire.Reply{}, nil, l.useless(f, err)
		}
	}
	switch {
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		httpclient.Discard(resp.Body)
		return l.elsewhere(ctx, f, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return l.refusal(ctx, f, resp)
	}
	switch t := httpclient.ContentType(resp.Header); t {
	case httpclient.ContentJSON, "":
		return l.single(f, resp)
	case httpclient.ContentEvents:
		return l.follow(ctx, f, resp)
	default:
		resp.Body.Close()
		return wire.Reply{}, nil, l.useless(f, fmt.Errorf("its content type is %q, neither %s nor %s", clip(t), httpclient.ContentJSON, httpclient.ContentEvents))
	}
}

func (l *httpLink) useless(f *flight, err error) error {
	return &AnswerError{Upstream: l.name, Method: f.method, Err: err}
}

// elsewhere waits for an answer that is not to come on the request's own
// stream. That is against the specification, but it is done.
func (l *httpLink) elsewhere(ctx context.Context, f *flight, status int) (wire.Reply, *rest, error) {
	if f.answer == nil {
		return wire.Reply{}, nil, l.useless(f, &httpclient.StatusError{Status: status})
	}
	select {
	case o := <-f.answer:
		return o.reply, nil, o.err
	case <-ctx.Done():
		return wire.Reply{}, nil, context.Cause(ctx)
	}
}

// single reads an answer that is one JSON document.
func (l *httpLink) single(f *flight, resp *http.Response) (wire.Reply, *rest, error) {
	body, err := l.readAll(resp)
	var large *wire.TooLargeError
	switch {
	case errors.As(err, &large):
		l.junk(err.Error(), body)
		return wire.Reply{}, nil, l.useless(f, err)
	case err != nil:
		return wire.Reply{}, nil, err
	}
	if o := l.receive(body, f); o != nil {
		return o.reply, nil, o.err
	}
	return wire.Reply{}, nil, l.useless(f, errors.New("there is none in its response"))
}

// readAll reads a body that is a message, and closes it. With a
// *wire.TooLargeError comes the beginning.
func (l *httpLink) readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if n := resp.ContentLength; n > int64(l.max) {
		head := make([]byte, maxExcerpt)
		n, err := io.ReadFull(resp.Body, head)
		if err != nil {
			return nil, err
		}
		return head[:n], &wire.TooLargeError{Limit: l.max}
	}
	return roomFor(resp.Request.Context(), l.opts.budget).ReadAll(resp.Body, resp.ContentLength, l.max, maxExcerpt)
}

// roomFor is for the messages of a server, until ctx ends.
func roomFor(ctx context.Context, all *budget.Budget) *wire.Room {
	if all == nil {
		return nil
	}
	return &wire.Room{Context: ctx, Open: all.OpenAnswer}
}

// refusal reads a response that is no success. A JSON-RPC error in it is the
// answer.
func (l *httpLink) refusal(ctx context.Context, f *flight, resp *http.Response) (wire.Reply, *rest, error) {
	body, err := l.readAll(resp)
	var large *wire.TooLargeError
	if err != nil && !errors.As(err, &large) {
		return wire.Reply{}, nil, err
	}
	m, err := wire.ParseRepaired(body)
	id, _ := ownID(m.ID)
	answers := isError(body, f.id) || len(m.ID) > 0 && m.ID[0] == '"' && m.Error != nil // Python says "server-error"
	if errors.Is(err, wire.ErrAmbiguous) {
		answers = false
	}
	own := answers && id == f.id
	switch {
	case own && (resp.StatusCode != http.StatusNotFound || wire.ParseError(m.Error).Code == wire.CodeMethodNotFound):
		return wire.Reply{Error: m.Error}, nil, nil
	case l.lostSession(resp.StatusCode):
		return wire.Reply{}, nil, l.lose()
	case resp.StatusCode == http.StatusBadRequest && !l.known(ctx):
		return wire.Reply{}, nil, l.lose()
	case answers:
		return wire.Reply{Error: m.Error}, nil, nil
	}
	return wire.Reply{}, nil, l.useless(f, &httpclient.StatusError{Status: resp.StatusCode, Body: clip(string(body[:min(len(body), httpclient.MaxErrorBody)]))})
}

// isError tells whether raw is a JSON-RPC error for request id, or one of a
// server that had not read as far as the id, which is null then, or absent.
func isError(raw []byte, id int64) bool {
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

// known asks the server whether it knows our session, because many say 400
// where the specification wants 404.
func (l *httpLink) known(ctx context.Context) bool {
	if !l.client.HasSession() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	l.mu.Lock()
	id := l.ids.next()
	l.mu.Unlock()
	resp, err := l.client.Do(ctx, http.MethodPost, wire.Request(id, protocol.MethodPing, nil), "", nil)
	if err != nil {
		return true
	}
	httpclient.Discard(resp.Body)
	return resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound
}

// follow reads the answer from a stream of events, which it resumes where that
// can be done (revision 2025-11-25, basic/transports; SEP-1699).
func (l *httpLink) follow(ctx context.Context, f *flight, resp *http.Response) (wire.Reply, *rest, error) {
	at := cursor{retry: -1}
	for {
		events := newEventReader(resp.Body, l.max).behind(at.id).within(roomFor(ctx, l.opts.budget))
		events.unasked = l.unasked
		o, err := l.awaited(events, f)
		if o != nil {
			return o.reply, &rest{l, f, resp.Body, events}, o.err
		}
		at.at(events, false, err)
		events.release()
		resp.Body.Close()
		if ctx.Err() != nil {
			return wire.Reply{}, nil, context.Cause(ctx)
		}
		if at.id == "" && errors.Is(err, io.EOF) { // the server is well, and has ended it
			return wire.Reply{}, nil, l.useless(f, errors.New("the stream of the request ended before the answer"))
		}
		if at.id == "" {
			return wire.Reply{}, nil, &DownError{Upstream: l.name, Reason: "the stream of the request ended before the answer", Err: err}
		}
		if resp, err = l.resume(ctx, f, &at); err != nil {
			return wire.Reply{}, nil, err
		}
	}
}

// awaited reads events until the answer; without one, err says how the stream
// ended.
func (l *httpLink) awaited(events *eventReader, f *flight) (*outcome, error) {
	for {
		ev, err := l.next(events)
		if err != nil {
			return nil, err
		}
		if ev.data == nil {
			if id, ok := ev.long.ResponseID(); ok && id == f.id {
				return &outcome{err: l.useless(f, &wire.TooLargeError{Limit: l.max})}, nil
			}
		}
		if o := l.event(ev, f); o != nil {
			return o, nil
		}
	}
}

// next is the next event. One that is too large is reported and has no data.
func (l *httpLink) next(events *eventReader) (event, error) {
	ev, err := events.next()
	var large *wire.TooLargeError
	if errors.As(err, &large) {
		l.junk(err.Error(), ev.long.Head)
		return ev, nil
	}
	return ev, err
}

// resume opens the stream of a call again.
func (l *httpLink) resume(ctx context.Context, f *flight, at *cursor) (*http.Response, error) {
	for at.failures = 0; ; at.failures++ {
		if at.failures == maxResumes {
			return nil, &DownError{Upstream: l.name, Reason: fmt.Sprintf("the stream of the request ended before the answer, and could not be resumed %d times", maxResumes)}
		}
		if !at.wait(ctx) {
			return nil, context.Cause(ctx)
		}
		resp, err := l.client.Do(ctx, http.MethodGet, nil, at.id, nil)
		var auth *httpclient.AuthError
		switch {
		case ctx.Err() != nil, errors.As(err, &auth):
			if err == nil {
				resp.Body.Close()
				err = context.Cause(ctx)
			}
			return nil, err
		case err != nil:
			_ = l.failure(err) // may end the link; the request itself was sent
			if ended := l.ended(); ended != nil {
				return nil, ended
			}
			continue
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			return resp, nil
		}
		status := httpclient.NewStatusError(resp)
		switch {
		case l.lostSession(status.Status):
			_ = l.lose()
			return nil, &DownError{Upstream: l.name, Reason: "it has forgotten our session before the answer came"}
		case status.Status/100 != 5 && status.Status != http.StatusTooManyRequests:
			return nil, l.useless(f, fmt.Errorf("the stream ended before it and cannot be resumed: %w", status))
		}
	}
}

// event takes an event of a stream, of f's if that is not nil. It returns the
// outcome of f if the event is that.
func (l *httpLink) event(ev event, f *flight) *outcome {
	if len(ev.data) == 0 || ev.name != "" && ev.name != "message" {
		l.unasked(len(ev.data))
		return nil
	}
	return l.receive(ev.data, f)
}

// receive takes a message, or a batch under the revision that has them.
func (l *httpLink) receive(raw []byte, f *flight) *outcome {
	if !l.batches.Load() {
		return l.message(raw, f)
	}
	items, batch, err := wire.Split(raw)
	switch {
	case !batch:
		return l.message(raw, f)
	case err != nil:
		l.junk(err.Error(), raw)
		return nil
	}
	var found *outcome
	for _, item := range items {
		if o := l.message(item, f); o != nil {
			found = o
		}
	}
	return found
}
