package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/sse"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// lingerTime is how long a stream is read on after the answer, so that the server
// can end it and its connection be used again.
const lingerTime = 2 * time.Second

// stream is a response whose body is a stream of events.
type stream struct {
	body   io.ReadCloser
	events *sse.Reader
}

func (s *stream) close() {
	s.body.Close()
	s.events.Release()
}

// receive reads a response until the call has its outcome. rest is not nil if the
// stream may have more than that.
func (p *post) receive(resp *http.Response) (rest *stream) {
	if p.initialize && resp.StatusCode == http.StatusOK {
		if err := p.link.client.SetSession(resp.Header); err != nil {
			resp.Body.Close()
			p.useless(err)
			return nil
		}
	}
	switch {
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		httpclient.Discard(resp.Body)
		p.awaitElsewhere(resp.StatusCode)
		return nil
	case resp.StatusCode != http.StatusOK:
		p.refused(resp)
		return nil
	}
	switch t := httpclient.ContentType(resp.Header); t {
	case httpclient.ContentJSON, "":
		p.single(resp)
		return nil
	case httpclient.ContentEvents:
		return p.follow(resp)
	default:
		resp.Body.Close()
		p.useless(fmt.Errorf("its content type is %q, neither %s nor %s", shown(t), httpclient.ContentJSON, httpclient.ContentEvents))
		return nil
	}
}

// awaitElsewhere waits for an answer on the GET stream. That is against the
// specification, but some servers do it.
func (p *post) awaitElsewhere(status int) {
	if !p.anywhere {
		p.failStatus(status, "")
		return
	}
	select {
	case <-p.settling():
	case <-p.ctx.Done():
	}
}

// single reads an answer that is one JSON document.
func (p *post) single(resp *http.Response) {
	body, err := p.link.readAll(resp)
	var large *wire.TooLargeError
	switch {
	case errors.As(err, &large):
		p.link.rpc.Oversized(rpc.Excerpt{Head: body}, large, p)
		p.useless(err)
	case err != nil:
		p.fail(err)
	default:
		p.link.rpc.Receive(body, p)
		if !p.over() {
			p.useless(errors.New("there is none in its response"))
		}
	}
}

// readAll reads a body that is a message, and closes it. With a
// *wire.TooLargeError comes the beginning.
func (l *Link) readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if n := resp.ContentLength; n > int64(l.opts.MaxMessage) {
		head := make([]byte, rpc.MaxExcerpt)
		n, err := io.ReadFull(resp.Body, head)
		if err != nil {
			return nil, err
		}
		return head[:n], &wire.TooLargeError{Limit: l.opts.MaxMessage}
	}
	return l.opts.Room(resp.Request.Context()).ReadAll(resp.Body, resp.ContentLength, l.opts.MaxMessage, rpc.MaxExcerpt)
}

// refused reads a response that is no success. A JSON-RPC error in it is the
// answer.
func (p *post) refused(resp *http.Response) {
	l := p.link
	body, err := l.readAll(resp)
	var large *wire.TooLargeError
	if err != nil && !errors.As(err, &large) {
		p.fail(err)
		return
	}
	m, err := wire.ParseRepaired(body)
	answers := rpc.IsErrorFor(body, p.frame.ID) || len(m.ID) > 0 && m.ID[0] == '"' && m.Error != nil // Python says "server-error"
	if errors.Is(err, wire.ErrAmbiguous) {
		answers = false
	}
	own := answers && string(m.ID) == fmt.Sprint(p.frame.ID)
	switch {
	case own && (resp.StatusCode != http.StatusNotFound || wire.ParseError(m.Error).Code == wire.CodeMethodNotFound):
		l.rpc.Answer(p.frame.ID, wire.Reply{Error: m.Error}, p)
	case l.lostSession(resp.StatusCode), resp.StatusCode == http.StatusBadRequest && !p.sessionKnown():
		p.loseSession()
	case answers:
		l.rpc.Answer(p.frame.ID, wire.Reply{Error: m.Error}, p)
	default:
		p.failStatus(resp.StatusCode, shown(string(body[:min(len(body), httpclient.MaxErrorBody)])))
	}
}

// loseSession ends the call, which the server has not acted on, and the link.
func (p *post) loseSession() {
	p.link.rpc.Fail(p.frame.ID, p.link.opts.Errors.Down("it has forgotten our session", nil), true)
	p.link.loseSession()
}

// sessionKnown asks the server whether it knows our session, because many say 400
// where the specification wants 404.
func (p *post) sessionKnown() bool {
	l := p.link
	if !l.client.HasSession() {
		return true
	}
	ctx, cancel := context.WithTimeout(p.ctx, asideTimeout)
	defer cancel()
	resp, err := l.client.Do(ctx, http.MethodPost, wire.Request(l.rpc.ReserveID(), protocol.MethodPing, nil), "", nil)
	if err != nil {
		return true
	}
	httpclient.Discard(resp.Body)
	return resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound
}

// follow reads the answer from a stream of events, which it resumes where that is
// possible (revision 2025-11-25, basic/transports; SEP-1699).
func (p *post) follow(resp *http.Response) (rest *stream) {
	l := p.link
	at := cursor{retry: -1}
	for {
		s := l.open(p.ctx, resp, at.id)
		err := p.await(s)
		if err == nil {
			return s
		}
		at.leave(s.events, false, err)
		s.close()
		switch {
		case p.ctx.Err() != nil:
			return nil
		case at.id == "" && errors.Is(err, io.EOF): // the server is well, and has ended it
			p.useless(errors.New("the stream of the request ended before the answer"))
			return nil
		case at.id == "":
			l.rpc.Fail(p.frame.ID, l.opts.Errors.Down("the stream of the request ended before the answer", err), false)
			return nil
		}
		if resp = p.resume(&at); resp == nil {
			return nil
		}
	}
}

// open makes a stream of a response. after is the id of the last event before it.
func (l *Link) open(ctx context.Context, resp *http.Response, after string) *stream {
	s := &stream{body: resp.Body, events: sse.NewReader(resp.Body, l.opts.MaxMessage).After(after).Within(l.opts.Room(ctx))}
	s.events.Wasted = l.unasked
	return s
}

// await reads events until the call has its outcome. Without one, err says how
// the stream ended.
func (p *post) await(s *stream) error {
	for !p.over() {
		if err := p.link.next(s, p); err != nil {
			return err
		}
	}
	return nil
}

// next reads one event of a stream that on stands for.
func (l *Link) next(s *stream, on rpc.Stream) error {
	ev, err := s.events.Next()
	var large *wire.TooLargeError
	switch {
	case errors.As(err, &large):
		l.rpc.Oversized(rpc.Excerpt{Head: ev.Head, Tail: ev.Tail}, large, on)
	case err != nil:
		return err
	case len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message":
		l.unasked(len(ev.Data))
	default:
		l.rpc.Receive(ev.Data, on)
	}
	return nil
}

// drain reads what the server still has to say after the answer, but not for
// long.
func (s *stream) drain(p *post) {
	defer s.close()
	defer time.AfterFunc(lingerTime, p.cancel).Stop()
	for p.link.next(s, p) == nil {
	}
}
