package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// How often and how long a failed request is repeated. Spans that end meanwhile wait in a queue of
// bounded length, and are dropped when the queue is full.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Second
	retryTotal = 20 * time.Second
)

// maxAnswer bounds the size of a read answer.
const maxAnswer = 64 << 10

// pingTimeout is how long an HTTP/2 connection may be silent before a ping checks the peer.
const pingTimeout = 15 * time.Second

// sender sends the requests of a signal. A sender is safe for concurrent use.
type sender struct {
	settings
	signal signal
	grpc   bool
	agent  string
	client *http.Client
}

func newSender(ctx context.Context, o Options, of signal) (*sender, error) {
	read, err := of.read(ctx, o)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = read.tls
	if o.GRPC {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingTimeout}
		if read.url.Scheme == "http" { // proxies do not understand HTTP/2 without TLS
			transport.Proxy = nil
		}
	}
	return &sender{read, of, o.GRPC, o.UserAgent, &http.Client{Transport: transport}}, nil
}

// close closes idle connections.
func (s *sender) close() { s.client.CloseIdleConnections() }

// failure is a failed attempt.
type failure struct {
	err   error
	again bool          // another attempt can succeed
	after time.Duration // how long the collector asks to wait
}

// send sends a message until the collector has taken or refused the message, or retryTotal or ctx
// ends.
func (s *sender) send(ctx context.Context, message []byte) error {
	body, err := s.body(message)
	if err != nil {
		return err
	}
	begin := time.Now()
	for wait := retryFirst; ; wait = min(wait*3/2, retryMost) {
		failed := s.attempt(ctx, body)
		if failed == nil {
			return nil
		}
		pause := max(failed.after, wait/2+rand.N(wait))
		if !failed.again || time.Since(begin)+pause > retryTotal {
			return failed.err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), failed.err)
		}
	}
}

// body returns the content of requests with a message.
func (s *sender) body(message []byte) ([]byte, error) {
	if s.zip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(message)
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		message = b.Bytes()
	}
	if s.grpc {
		return frame(message, s.zip), nil
	}
	return message, nil
}

// attempt makes a request, and returns nil if the collector has taken the message.
func (s *sender) attempt(ctx context.Context, body []byte) *failure {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(limited, http.MethodPost, s.url.String(), bytes.NewReader(body))
	if err != nil {
		return &failure{err: err}
	}
	r.Header.Set("User-Agent", s.agent)
	for name, value := range s.headers {
		r.Header.Set(name, value)
	}
	if s.grpc {
		setMetadata(r.Header, s.zip, s.timeout)
	} else {
		r.Header.Set("Content-Type", protobuf)
		if s.zip {
			r.Header.Set("Content-Encoding", "gzip")
		}
	}
	answer, err := s.client.Do(r)
	var content []byte
	if err == nil {
		defer answer.Body.Close()
		content, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	}
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) { // with the address, which can be secret
			err = with.Err
		}
		return &failure{err: err, again: ctx.Err() == nil}
	}
	if s.grpc {
		return s.outcomeOfGRPC(answer, content)
	}
	return s.outcome(answer, content)
}

const protobuf = "application/x-protobuf"

// outcome reads an answer over HTTP.
func (s *sender) outcome(answer *http.Response, content []byte) *failure {
	if answer.StatusCode/100 == 2 {
		if answer.Header.Get("Content-Type") != protobuf {
			return nil
		}
		return s.partly(content)
	}
	f := &failure{err: fmt.Errorf("the collector answers %s: %s", answer.Status, strings.TrimSpace(string(content)))}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.again, f.after = true, retryAfter(answer.Header.Get("Retry-After"))
	}
	return f
}

// retryAfter reads a number of seconds, or a date.
func retryAfter(value string) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(n, 0), 3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at)
	}
	return 0
}

// partly reads the message of an answer, and returns the failure for refused parts of the request.
func (s *sender) partly(message []byte) *failure {
	var refused uint64
	var reason string
	for part := range fields(message) {
		if part.number != 1 { // partial_success
			continue
		}
		for f := range fields(part.text) {
			switch f.number {
			case 1: // rejected_spans, rejected_data_points
				refused = f.value
			case 2: // error_message
				reason = string(f.text)
			}
		}
	}
	if refused == 0 && reason == "" {
		return nil
	}
	return &failure{err: fmt.Errorf("the collector refuses %d %s: %s", refused, s.signal.items, reason)}
}
