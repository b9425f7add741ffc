package streamable

import (
	"errors"
	"net"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// failure is the effect of a request's error on the call and on the link.
type failure struct {
	err    error // for the caller of the request
	unsent bool  // the server has certainly not seen the request
	ends   bool  // the link is no longer usable
}

// marked returns the error, marked with rpc.Errors.Unsent if unsent is set.
func (f failure) marked(e rpc.Errors) error {
	if f.unsent {
		return e.Unsent(f.err)
	}
	return f.err
}

// failure interprets an error of httpclient.Client.Do.
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
		return failure{err: e.Down("it cannot be reached: "+link.Excerpt(err.Error()), err), unsent: true, ends: !late}
	}
	return failure{err: e.Down("its connection failed before the answer came: "+link.Excerpt(err.Error()), err)}
}
