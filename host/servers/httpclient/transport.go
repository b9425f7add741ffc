package httpclient

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// maxIdleConns is how many idle connections are kept for later requests.
const maxIdleConns = 256

// NewTransport returns a transport for a server with a URL scheme. The transport limits neither the
// time of a response nor the number of connections: an answer may take as long as the call, and a
// stream that is read slowly must not delay a cancellation. The transport uses the proxies of the
// environment (http.ProxyFromEnvironment), and none for loopback addresses.
func NewTransport(scheme string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	t.MaxResponseHeaderBytes = 1 << 20
	// A request on a connection that the server is just closing fails, and the server may have
	// acted on the request. Node closes idle connections after 5 s.
	t.IdleConnTimeout = 4 * time.Second
	if scheme == "https" { // TLS is costly to set up, and most servers are behind proxies that wait longer
		t.IdleConnTimeout = time.Minute
	}
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

// NotDialed reports whether err means: no connection was made for a request, so the server cannot
// have seen the request.
func NotDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
