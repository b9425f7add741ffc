package httpclient

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// maxIdleConns is how many idle connections are kept for later requests.
const maxIdleConns = 256

// NewTransport returns a transport for a server with that URL scheme. It limits
// neither the time of a response nor the number of connections: an answer may
// take as long as its call, and a stream that is read slowly must not delay a
// cancellation. It uses the proxies of the environment (http.ProxyFromEnvironment),
// and none for loopback addresses.
func NewTransport(scheme string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	t.MaxResponseHeaderBytes = 1 << 20
	// A request on a connection that the server is just closing fails, and it is not
	// known whether the server acted on it. Node closes idle connections after 5 s.
	t.IdleConnTimeout = 4 * time.Second
	if scheme == "https" { // TLS is costly to set up, and most servers are behind proxies that wait longer
		t.IdleConnTimeout = time.Minute
	}
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

// NotDialed reports whether err means that no connection was made for a request, so
// that the server cannot have seen it.
func NotDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
