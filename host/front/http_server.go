package front

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// NewServer makes an http.Server that suits long streams: slow headers are cut
// off, slow answers are not. HTTP itself bounds bodies and stalled writes.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// TLSFromFiles reads a certificate chain and its key, both PEM, for
// http.Server.TLSConfig (then ServeTLS wants no file names).
func TLSFromFiles(certFile, keyFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
