package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// Client says for which client of another replica a request is. That replica has found out who
// the client is, and has checked where the request comes from (the headers Host and Origin);
// what the client may do is for the handler to check.
type Client struct {
	Replica string        // the id of the one that has passed the request on
	Token   bearer.Digest // zero for none
}

type clientKey struct{}

// From returns the client of a request that another replica has passed on; ok is false for other
// requests. Those that were passed on are not to be passed on again.
func From(ctx context.Context) (c Client, ok bool) {
	c, ok = ctx.Value(clientKey{}).(Client)
	return c, ok
}

// Bounds of the listener.
const (
	handshakeTime  = 10 * time.Second
	idleTime       = 5 * time.Minute
	maxHeaders     = 96 << 10 // more than a client can send
	maxStreams     = 1000     // of one connection
	maxConnections = 1024
	pingAfter      = 15 * time.Second
	pingTime       = 15 * time.Second
	// endTime is how long requests have to end when the listener does.
	endTime = time.Second
)

// http2 are the settings of both sides. A connection whose other end does not answer is closed.
func http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTime,
		MaxReceiveBufferPerConnection: 4 << 20, MaxReceiveBufferPerStream: 1 << 20,
	}
}

// Serve answers the requests that other replicas pass on, with handler, until ctx ends. It closes
// ln. The error is nil when ctx ends, or says why serving failed. The remote address of a request
// is that of its client.
func (l *Link) Serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, handler) }),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, GetConfigForClient: l.serverConfig},
		ReadHeaderTimeout: handshakeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders,
		HTTP2:    http2(),
		ErrorLog: slog.NewLogLogger(l.opts.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(newBounded(ln, maxConnections), "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serving other replicas on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err := server.Shutdown(late)
	if err != nil { // some requests go on
		err = server.Close()
	}
	<-served
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// serverConfig returns the TLS configuration for a new connection.
func (l *Link) serverConfig(*tls.ClientHelloInfo) (*tls.Config, error) {
	n, _, err := l.current()
	if err != nil {
		return nil, err
	}
	return n.config(), nil
}

// serve answers one request.
func (l *Link) serve(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	n, _, err := l.current()
	if err != nil || !n.knows(r.TLS) {
		w.Header().Set(refusedHeader, "key")
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c := Client{Replica: r.TLS.PeerCertificates[0].Subject.CommonName}
	if text := r.Header.Get(tokenHeader); text != "" {
		if c.Token, err = bearer.ParseDigest(text); err != nil {
			http.Error(w, "malformed "+tokenHeader, http.StatusBadRequest)
			return
		}
	}
	r.RemoteAddr = r.Header.Get(clientHeader)
	r.Header.Del(tokenHeader)
	r.Header.Del(clientHeader)
	handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, c)))
}
