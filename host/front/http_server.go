package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ServerOptions of an http.Server. Zero values mean the default.
type ServerOptions struct {
	// MaxConnections is the most connections at a time. Default 4096.
	MaxConnections int
	// MaxConnectionsPerAddress is the most of one address; an IPv6 network /64
	// counts as one. Default half of MaxConnections, but all of them for loopback
	// addresses, from where proxies come.
	MaxConnectionsPerAddress int
	Log                      *slog.Logger
}

// NewServer makes an http.Server that suits long streams: slow headers are cut
// off, slow answers are not. HTTP itself bounds bodies and stalled writes.
func NewServer(handler http.Handler, opts ServerOptions) *http.Server {
	conns := newConnections(cmp.Or(opts.MaxConnections, 4096), opts.MaxConnectionsPerAddress, opts.Log)
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveBounded(w, r, handler) }),
		ConnState:         conns.state,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100, // no less (RFC 9113, 6.5.2)
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
			SendPingTimeout:               time.Minute,
		},
		ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
}

// serveBounded serves a request whose body, if it has one, must not take for
// ever, whether somebody reads it or the server skips it. Whoever reads it moves
// the deadline.
func serveBounded(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
	}
	handler.ServeHTTP(w, r)
}

// TLSFromFiles reads a certificate chain and its key, both PEM, for
// http.Server.TLSConfig (then ServeTLS wants no file names).
func TLSFromFiles(ctx context.Context, certFile, keyFile string) (*tls.Config, error) {
	cert, err := KeyPair(ctx, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// maxPEM is the size of the largest certificate chain or key, in bytes.
const maxPEM = 1 << 20

// KeyPair reads a certificate chain and its key, both PEM.
func KeyPair(ctx context.Context, certFile, keyFile string) (tls.Certificate, error) {
	cert, err := regular.Read(ctx, certFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.Read(ctx, keyFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
