package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// lostSession reports whether a status means that the server has forgotten our session.
func (l *Link) lostSession(status int) bool {
	return status == http.StatusNotFound && l.client.HasSession()
}

// loseSession ends the link because the server has forgotten the session. loseSession returns the
// error for the request with the revealing response; the server has not acted on this request.
func (l *Link) loseSession() error {
	down := l.opts.Errors.Down("it has forgotten our session", nil)
	l.end(down, l.hasAnswered.Load()) // if nothing was ever answered, the next link may fail in the same way
	return down
}

// loseSession ends the call and the link. The server has not acted on the call.
func (p *post) loseSession() {
	p.link.rpc.Fail(p.frame.ID, p.link.opts.Errors.Down("it has forgotten our session", nil), true)
	p.link.loseSession()
}

// sessionKnown asks the server whether our session is known. Many servers answer 400 to an unknown
// session, where the specification requires 404.
func (p *post) sessionKnown() bool {
	l := p.link
	if !l.client.HasSession() {
		return true
	}
	ctx, cancel := context.WithTimeout(p.ctx, backgroundTimeout)
	defer cancel()
	resp, err := l.client.Do(ctx, http.MethodPost, wire.Request(l.rpc.ReserveID(), protocol.MethodPing, nil), "", nil)
	if err != nil {
		return true
	}
	httpclient.Discard(resp.Body)
	return resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound
}

// maxSuspect is the size up to which an answer is looked at for an error, in bytes.
const maxSuspect = 4 << 10

// mayBeLost reports whether some servers answer to a forgotten session with this status, in place
// of 404.
func mayBeLost(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusGone || status/100 == 5
}

// unasked reports whether err is the error of a request answered with 401 without a request for a
// token, as some servers do after forgetting a session.
func unasked(err error) bool {
	var auth *httpclient.AuthError
	return errors.As(err, &auth) && auth.Unasked
}

// suspectError is suspect for an error with the status of a success. suspectError returns false for
// other answers.
func (p *post) suspectError(body []byte) bool {
	if len(body) > maxSuspect {
		p.link.suspicions.Store(0)
		return false
	}
	refused, ok := errorIn(body)
	if !ok {
		p.link.suspicions.Store(0)
		return false
	}
	return p.suspect(fmt.Sprintf("it answered with error %d: %s", refused.Code, link.Excerpt(refused.Message)))
}

// errorIn returns the error in a body, except for an unknown method or wrong params: then the
// server has looked at the request.
func errorIn(body []byte) (refused *wire.RPCError, ok bool) {
	raw, ok := wire.Get(document(body), "error")
	if !ok {
		return nil, false
	}
	refused = wire.ParseError(raw)
	return refused, refused.Code != wire.CodeMethodNotFound && refused.Code != wire.CodeInvalidParams
}

// suspect counts an answer to the call that may be the answer to a forgotten session. After two in
// a row suspect asks the server. If the server answers in the same way, suspect ends the call and
// the link, so that a new session is begun, and returns true. outcome describes the answer to the
// call. The server may have acted on the call.
func (p *post) suspect(outcome string) bool {
	l := p.link
	if p.stateless() || !l.client.HasSession() || !l.hasAnswered.Load() || l.suspicions.Add(1) < 2 {
		return false
	}
	l.suspicions.Store(0)
	if p.sessionAnswers() {
		return false
	}
	down := l.opts.Errors.Down(outcome+" (it answers every request like that and seems to have forgotten our session: a new one is begun, so call again)", nil)
	l.rpc.Fail(p.frame.ID, down, false)
	l.end(down, true)
	return true
}

// sessionAnswers reports whether the server answers a ping, or gives an answer that says nothing
// about our session.
func (p *post) sessionAnswers() bool {
	l := p.link
	ctx, cancel := context.WithTimeout(p.ctx, backgroundTimeout)
	defer cancel()
	resp, err := l.client.Do(ctx, http.MethodPost, wire.Request(l.rpc.ReserveID(), protocol.MethodPing, nil), "", nil)
	if err != nil {
		return !unasked(err)
	}
	if !succeeded(resp.StatusCode) {
		httpclient.Discard(resp.Body)
		return !mayBeLost(resp.StatusCode) && resp.StatusCode != http.StatusNotFound
	}
	if httpclient.ContentType(resp.Header) == httpclient.ContentEvents {
		resp.Body.Close()
		return true
	}
	body, err := l.readAll(resp)
	if err != nil {
		return true
	}
	_, refused := errorIn(body)
	return !refused
}
