package streamable

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ServerOptions of an http.Server. Zero values mean the default.
type ServerOptions struct {
	// MaxConnections is the most connections at a time. Default 4096.
	MaxConnections int
	// MaxConnectionsPerAddress is the most connections from an address; an IPv6 /64 network counts
	// as an address. The default is half of MaxConnections, but MaxConnections for loopback
	// addresses, which proxies connect from.
	MaxConnectionsPerAddress int
	// Servers is how many servers the process has, for which descriptors are left.
	Servers int
	Log     *slog.Logger
}

// Server is an http.Server that leaves descriptors to the rest of the process.
type Server struct {
	*http.Server
	connections *connections
}

// Serve serves the connections of a listener; see http.Server.Serve. When the process has no
// descriptor left for a new connection, Serve closes an idle connection.
func (s *Server) Serve(ln net.Listener) error {
	return s.Server.Serve(&thriftyListener{ln, s.connections})
}

// NewServer makes a Server for long streams: with a timeout for headers, but no timeout for
// answers. The Handler limits the time for bodies and stalled writes.
func NewServer(handler http.Handler, opts ServerOptions) *Server {
	most := cmp.Or(opts.MaxConnections, 4096)
	if files := openFiles(); affordable(most, files, opts.Servers) < most {
		most = affordable(most, files, opts.Servers)
		opts.Log.Info("fewer connections than "+limits.Connections.Setting()+" says, because the process may open only so many files (raise its limit, as with ulimit -n)",
			"connections", most, "files", files)
	}
	conns := newConnections(most, opts.MaxConnectionsPerAddress, opts.Log)
	return &Server{connections: conns, Server: &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveBounded(w, r, handler) }),
		ConnState:         conns.state,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100, // RFC 9113, section 6.5.2, recommends no less
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
			SendPingTimeout:               time.Minute,
		},
		ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}}
}

// serveBounded sets a deadline for the body of a request, whether the handler reads the body or the
// server skips the body. readBody moves the deadline. serveBounded refuses a request with two
// values of a header that a handler acts on.
func serveBounded(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
	}
	if name := repeatedHeader(r.Header); name != "" {
		w.Header().Set("Connection", "close") // the body has not been read
		http.Error(w, "the header "+name+" has several values (send it once)", http.StatusBadRequest)
		return
	}
	handler.ServeHTTP(w, r)
}

// singleHeaders are the headers that handlers act on and that have a single value (RFC 9110,
// section 5.3). A proxy in front of this server could act on another of several values. Host is
// missing here because net/http refuses a second Host.
var singleHeaders = []string{
	"Authorization", "Content-Encoding", "Content-Type", "Origin", "Sec-Fetch-Site",
	resumeHeader, sessionHeader, envelope.HeaderVersion, envelope.HeaderMethod, envelope.HeaderName,
}

// repeatedHeader returns the name of a header of a request that may have a single value and has
// several, or "".
func repeatedHeader(h http.Header) string {
	for name, values := range h {
		if len(values) > 1 && (slices.Contains(singleHeaders, name) || strings.HasPrefix(name, envelope.HeaderParam)) {
			return display.Excerpt(name, maxQuoted)
		}
	}
	return ""
}

// maxPEM is the size of the largest certificate chain or key, in bytes.
const maxPEM = 1 << 20

// KeyPair reads a certificate chain and the chain's key from PEM files.
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
