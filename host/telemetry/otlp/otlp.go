// Package otlp sends spans and metrics to a collector by OTLP: over HTTP with protobuf, or by gRPC.
// Both are requests of net/http with the same content, so a single sender serves both, and the
// packages of gRPC, which would be a tenth of the program, are not linked.
//
// The standard variables replace missing options, as in the exporters of the OpenTelemetry SDK
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Options of an exporter.
type Options struct {
	// Endpoint is the address of the collector, http or https, without the path of a signal; "" for
	// the address in the variables, or http://localhost:4318 (4317 for gRPC).
	Endpoint string
	GRPC     bool
	// Headers are sent with every request; nil: the headers in the variables.
	Headers map[string]string
	// UserAgent names the program.
	UserAgent string
}

// NewSpans makes an exporter of spans, without connecting.
func NewSpans(ctx context.Context, o Options) (tracesdk.SpanExporter, error) {
	s, err := newSender(ctx, o, signal{
		variable: "TRACES", path: "v1/traces", items: "spans",
		method: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	})
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, spanClient{s})
}

// spanClient implements otlptrace.Client.
type spanClient struct{ sender *sender }

func (spanClient) Start(context.Context) error { return nil }

func (c spanClient) Stop(context.Context) error {
	c.sender.close()
	return nil
}

func (c spanClient) UploadTraces(ctx context.Context, spans []*traces.ResourceSpans) error {
	// ExportTraceServiceRequest has the same fields, but the package of that type links gRPC.
	message, err := proto.Marshal(&traces.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return c.sender.send(ctx, message)
}

// NewMetrics makes an exporter of metrics, without connecting.
func NewMetrics(ctx context.Context, o Options) (metricsdk.Exporter, error) {
	s, err := newSender(ctx, o, signal{
		variable: "METRICS", path: "v1/metrics", items: "data points",
		method: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	})
	if err != nil {
		return nil, err
	}
	return metricExporter{s, temporality(), aggregation()}, nil
}

// metricExporter implements metricsdk.Exporter.
type metricExporter struct {
	sender      *sender
	temporality metricsdk.TemporalitySelector
	aggregation metricsdk.AggregationSelector
}

func (e metricExporter) Temporality(kind metricsdk.InstrumentKind) metricdata.Temporality {
	return e.temporality(kind)
}

func (e metricExporter) Aggregation(kind metricsdk.InstrumentKind) metricsdk.Aggregation {
	return e.aggregation(kind)
}

func (e metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	// As for spans: ExportMetricsServiceRequest has the same fields.
	message, err := proto.Marshal(&metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{convert(data)}})
	if err != nil {
		return err
	}
	return e.sender.send(ctx, message)
}

func (metricExporter) ForceFlush(ctx context.Context) error { return ctx.Err() }

func (e metricExporter) Shutdown(context.Context) error {
	e.sender.close()
	return nil
}

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

// A call by gRPC is a POST over HTTP/2 with a message. The answer is a message and a status in the
// trailer (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).

// frameHead is the length of the head of a message: whether the message is compressed, and the
// message's length.
const frameHead = 5

// frame puts a message into a frame.
func frame(message []byte, zipped bool) []byte {
	b := make([]byte, frameHead, frameHead+len(message))
	if zipped {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(message)))
	return append(b, message...)
}

// setMetadata sets the header fields of a call.
func setMetadata(h http.Header, zip bool, timeout time.Duration) {
	h.Set("Content-Type", "application/grpc")
	h.Set("TE", "trailers")
	h.Set("Grpc-Timeout", strconv.FormatInt(min(timeout.Milliseconds(), 99_999_999), 10)+"m")
	if zip {
		h.Set("Grpc-Encoding", "gzip")
	}
}

// The codes of gRPC with which an attempt can be repeated.
const (
	codeCancelled = 1
	codeDeadline  = 4
	codeExhausted = 8 // only if the collector says when
	codeAborted   = 10
	codeRange     = 11
	codeAway      = 14
	codeLoss      = 15
)

// outcomeOfGRPC reads an answer by gRPC.
func (s *sender) outcomeOfGRPC(answer *http.Response, content []byte) *failure {
	status := answer.Trailer
	if answer.Header.Get("Grpc-Status") != "" { // an answer without a message
		status = answer.Header
	}
	code, err := strconv.Atoi(status.Get("Grpc-Status"))
	switch {
	case err != nil: // from a proxy in front of the collector
		f := s.outcome(answer, nil)
		if f == nil {
			f = &failure{err: fmt.Errorf("the answer does not come from a gRPC collector: content of type %q", answer.Header.Get("Content-Type"))}
		}
		return f
	case code == 0 && len(content) >= frameHead:
		return s.partly(content[frameHead:])
	case code == 0:
		return nil
	}
	text, err := url.PathUnescape(status.Get("Grpc-Message"))
	if err != nil {
		text = status.Get("Grpc-Message")
	}
	f := &failure{err: fmt.Errorf("the collector answers with code %d of gRPC: %s", code, text)}
	after, given := retryInfo(status.Get("Grpc-Status-Details-Bin"))
	switch code {
	case codeCancelled, codeDeadline, codeAborted, codeRange, codeAway, codeLoss:
		f.again, f.after = true, after
	case codeExhausted:
		f.again, f.after = given, after
	}
	return f
}

// retryInfo finds a google.rpc.RetryInfo among the details of a google.rpc.Status.
func retryInfo(encoded string) (after time.Duration, given bool) {
	status, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return 0, false
	}
	for detail := range fields(status) {
		if detail.number != 3 { // details
			continue
		}
		var kind string
		var info []byte
		for f := range fields(detail.text) {
			switch f.number {
			case 1: // type_url
				kind = string(f.text)
			case 2: // value
				info = f.text
			}
		}
		if !strings.HasSuffix(kind, "/google.rpc.RetryInfo") {
			continue
		}
		for delay := range fields(info) {
			if delay.number != 1 { // retry_delay
				continue
			}
			for f := range fields(delay.text) {
				switch f.number {
				case 1: // seconds
					after += time.Duration(min(f.value, 3600)) * time.Second
				case 2: // nanos
					after += time.Duration(min(f.value, 1e9))
				}
			}
		}
		return after, true
	}
	return 0, false
}

// field is a field of a message: a number, or bytes.
type field struct {
	number protowire.Number
	value  uint64
	text   []byte
}

// fields returns the fields of a message of unknown type, up to the first unreadable field.
func fields(message []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(message) > 0 {
			number, kind, head := protowire.ConsumeTag(message)
			if head < 0 {
				return
			}
			f, size := field{number: number}, 0
			switch rest := message[head:]; kind {
			case protowire.VarintType:
				f.value, size = protowire.ConsumeVarint(rest)
			case protowire.BytesType:
				f.text, size = protowire.ConsumeBytes(rest)
			default:
				size = protowire.ConsumeFieldValue(number, kind, rest)
			}
			if size < 0 || !yield(f) {
				return
			}
			message = message[head+size:]
		}
	}
}
