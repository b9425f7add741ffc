package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// Passage is a request that is to be passed on.
type Passage struct {
	To    string        // id of the replica
	Token bearer.Digest // of the client; zero for none
	// Body has been read from the request; nil: it has not been read, and is passed on as it
	// comes.
	Body []byte
}

// Bounds of requests to other replicas.
const (
	dialTime = 3 * time.Second
	// writeTime is how long a write to the client may make no progress.
	writeTime = 5 * time.Minute
	// copySize is how many bytes of an answer are read at a time.
	copySize = 32 << 10
)

// dialer makes connections to other replicas, with one identity.
type dialer struct{ *http.Transport }

func (l *Link) newDialer(n *identity) *dialer {
	return &dialer{&http.Transport{
		TLSClientConfig: n.config(), ForceAttemptHTTP2: true, DisableCompression: true,
		TLSHandshakeTimeout: handshakeTime, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeaders,
		HTTP2: http2(),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, _ := ctx.Value(addressKey{}).(string)
			return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, address)
		},
	}}
}

// addressKey is the key of the address in the context of a request.
type addressKey struct{}

// Reasons for ErrUnreached.
var (
	errUnknown = errors.New("it has ended, or it is no replica of this fleet")
	errKey     = errors.New("it does not have the key of the fleet that this replica uses (give both the same keys)")
)

// Do sends a request to a replica, for a client. Only the path and query of its URL are used. The
// caller must close the body of the response. The error is an [*Error].
func (l *Link) Do(r *http.Request, to string, token bearer.Digest) (*http.Response, error) {
	return l.do(r.Context(), r, to, token)
}

func (l *Link) do(ctx context.Context, r *http.Request, to string, token bearer.Digest) (*http.Response, error) {
	unreached := func(err error) error { return &Error{Replica: to, Kind: ErrUnreached, Err: err} }
	address, ok := l.opts.Address(to)
	if !ok {
		return nil, unreached(errUnknown)
	}
	_, via, err := l.current()
	if err != nil {
		return nil, unreached(err)
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	out := r.Clone(context.WithValue(ctx, addressKey{}, address))
	out.RequestURI, out.Host, out.Close = "", "", false
	out.URL.Scheme, out.URL.Host, out.URL.User = "https", hostOf(to), nil
	out.Header = passed(r.Header)
	sign(out.Header, token, r.RemoteAddr)
	response, err := via.RoundTrip(out)
	switch {
	case err == nil && response.Header.Get(refusedHeader) != "":
		response.Body.Close()
		return nil, unreached(errKey)
	case err == nil:
		return response, nil
	case !sent.Load():
		return nil, unreached(err)
	}
	return nil, &Error{Replica: to, Kind: ErrLost, Err: err}
}

// Forward passes a request of a client on to another replica, and the answer back to the client
// as it comes: status, headers, and events one by one. When the client disconnects, the other
// replica sees that. The error is an [*Error], or that of a write to the client. Unless it has
// Started, nothing was written to w.
//
// If the connection is lost while the client gets an event stream, an error with which the
// caller can end the stream is returned only between two events; else the connection to the
// client is cut off, by a panic with http.ErrAbortHandler.
func (l *Link) Forward(w http.ResponseWriter, r *http.Request, p Passage) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := r.WithContext(ctx)
	if p.Body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(p.Body)), int64(len(p.Body))
	}
	response, err := l.do(ctx, out, p.To, p.Token)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	header := w.Header()
	for name, values := range passed(response.Header) {
		header[name] = values
	}
	if response.ContentLength >= 0 {
		header["Content-Length"] = response.Header["Content-Length"]
	}
	w.WriteHeader(response.StatusCode)
	return relay(w, p.To, response.Body)
}

// relay copies the body of an answer to the client.
func relay(w http.ResponseWriter, from string, body io.Reader) error {
	to := http.NewResponseController(w)
	_ = to.Flush() // the client may wait for the headers
	buffer := make([]byte, copySize)
	end := []byte("\n\n") // of what the client has got
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			end = append(end, buffer[max(0, n-2):n]...)
			end = end[len(end)-2:]
			_ = to.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := to.Flush(); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return nil
		case w.Header().Get("Content-Type") != "text/event-stream" || string(end) != "\n\n":
			panic(http.ErrAbortHandler)
		}
		return &Error{Replica: from, Started: true, Kind: ErrLost, Err: err}
	}
}
