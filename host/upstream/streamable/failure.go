package streamable

import (
	"errors"
	"net"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/display"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxShown bounds text of the server in errors and logs, in characters.
const maxShown = 200

func shown(text string) string { return display.Line(text, maxShown) }

// failure is what an error of a request means.
type failure struct {
	err    error // for the caller of the request
	unsent bool  // the server has surely not seen the request
	ends   bool  // the link is of no use any more
}

// told is the error with its mark.
func (f failure) told(e rpc.Errors) error {
	if f.unsent {
		return e.Unsent(f.err)
	}
	return f.err
}

// failure judges an error of httpclient.Client.Do.
func (l *Link) failure(err error) failure {
	var denied *wire.DeniedError
	var auth *httpclient.AuthError
	var timeout net.Error
	e := l.opts.Errors
	switch {
	case errors.As(err, &denied):
		return failure{err: err, unsent: true}
	case l.Err() != nil:
		return failure{err: l.rpc.Err(), unsent: httpclient.NotDialed(err)}
	case errors.As(err, &auth):
		return failure{err: e.Down(auth.Error(), err)}
	case httpclient.NotDialed(err):
		late := errors.As(err, &timeout) && timeout.Timeout()
		return failure{err: e.Down("it cannot be reached: "+shown(err.Error()), err), unsent: true, ends: !late}
	}
	return failure{err: e.Down("its connection failed before the answer came: "+shown(err.Error()), err)}
}

// lostSession tells whether a status means that the server has forgotten our
// session.
func (l *Link) lostSession(status int) bool {
	return status == http.StatusNotFound && l.client.HasSession()
}

// loseSession ends the link because the server has forgotten the session. It
// returns the error of the request that the server said so to, which it has not
// acted on.
func (l *Link) loseSession() error {
	down := l.opts.Errors.Down("it has forgotten our session", nil)
	l.end(down, l.worked.Load()) // else the next one may fare no better: no hurry
	return down
}
