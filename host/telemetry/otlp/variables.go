package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	metricsdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// signal is the kind of sent data: spans or metrics.
type signal struct {
	variable string // the signal's part of the names of variables
	path     string // over HTTP, below the address of the collector
	method   string // by gRPC
	items    string // items of which a collector can refuse some
}

const prefix = "OTEL_EXPORTER_OTLP_"

// defaultTimeout is for a single attempt.
const defaultTimeout = 10 * time.Second

// maxPEM is the size of the largest file of certificates or of a key, in bytes.
const maxPEM = 1 << 20

// settings say how a signal is sent.
type settings struct {
	url     *url.URL
	headers map[string]string
	zip     bool
	timeout time.Duration
	tls     *tls.Config // nil: the default
}

// errCertificates says that certificates were configured and cannot be used.
var errCertificates = errors.New("certificates are configured, but the address of the collector begins with http:// (write https://)")

// read returns the settings of a signal, without unusable variables; package telemetry reports
// them.
func (s signal) read(ctx context.Context, o Options) (settings, error) {
	c := settings{url: s.address(o), headers: o.Headers, timeout: defaultTimeout}
	if c.headers == nil {
		s.each("HEADERS", func(value string) bool {
			c.headers = headersOf(value)
			return true
		})
	}
	s.each("COMPRESSION", func(value string) bool {
		c.zip = strings.EqualFold(value, "gzip")
		return true
	})
	s.each("TIMEOUT", func(value string) bool {
		ms, err := strconv.Atoi(value)
		if err != nil || ms <= 0 {
			return false
		}
		c.timeout = time.Duration(ms) * time.Millisecond
		return true
	})
	if c.tls = s.certificates(ctx); c.tls != nil && c.url.Scheme == "http" {
		return settings{}, errCertificates
	}
	return c, nil
}

// each calls use with the values of a setting, first with the value for this signal, until use
// returns true.
func (s signal) each(setting string, use func(value string) bool) {
	for _, name := range []string{prefix + s.variable + "_" + setting, prefix + setting} {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" && use(value) {
			return
		}
	}
}

// address returns where requests are sent.
func (s signal) address(o Options) *url.URL {
	if u := parseAddress(o.Endpoint, o.GRPC); u != nil {
		return s.below(u, o.GRPC)
	}
	var u *url.URL
	if own := parseAddress(os.Getenv(prefix+s.variable+"_ENDPOINT"), o.GRPC); own != nil && !o.GRPC {
		if u = own; u.Path == "" { // an address for a single signal is complete
			u.Path = "/"
		}
	} else if own != nil {
		u = s.below(own, o.GRPC)
	} else if all := parseAddress(os.Getenv(prefix+"ENDPOINT"), o.GRPC); all != nil {
		u = s.below(all, o.GRPC)
	} else if o.GRPC {
		u = s.below(&url.URL{Scheme: "http", Host: "localhost:4317"}, true)
	} else {
		u = s.below(&url.URL{Scheme: "http", Host: "localhost:4318"}, false)
	}
	s.each("INSECURE", func(value string) bool {
		if u.Scheme = "https"; strings.EqualFold(value, "true") {
			u.Scheme = "http"
		}
		return true
	})
	return u
}

// below returns the address of the signal at a collector.
func (s signal) below(u *url.URL, grpc bool) *url.URL {
	if grpc {
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: s.method}
	}
	return u.JoinPath(s.path)
}

// parseAddress returns the address in a text; nil without an address. For gRPC, HOST:PORT is also
// an address.
func parseAddress(text string, grpc bool) *url.URL {
	text = strings.TrimSpace(text)
	if grpc && text != "" && !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
}

// token has the characters of names of header fields (RFC 9110, 5.6.2).
const token = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// headersOf reads KEY=VALUE,... with values as in URLs.
func headersOf(list string) map[string]string {
	headers := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(value)
		if found && err == nil && name != "" && strings.Trim(name, token) == "" && !strings.ContainsFunc(value, unicode.IsControl) {
			headers[name] = strings.TrimSpace(value)
		}
	}
	return headers
}

// certificates returns the configuration of TLS; nil if the variables name no certificates.
func (s signal) certificates(ctx context.Context) *tls.Config {
	c := &tls.Config{}
	s.each("CERTIFICATE", func(file string) bool {
		pem, err := regular.Read(ctx, file, maxPEM)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			return false
		}
		c.RootCAs = pool
		return true
	})
	for _, of := range []string{prefix + s.variable + "_", prefix} {
		cert, err := regular.Read(ctx, strings.TrimSpace(os.Getenv(of+"CLIENT_CERTIFICATE")), maxPEM)
		if err != nil {
			continue
		}
		key, err := regular.Read(ctx, strings.TrimSpace(os.Getenv(of+"CLIENT_KEY")), maxPEM)
		if err != nil {
			continue
		}
		if own, err := tls.X509KeyPair(cert, key); err == nil {
			c.Certificates = []tls.Certificate{own}
			break
		}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil
	}
	return c
}

// temporality returns which metrics are sent as differences.
func temporality() metricsdk.TemporalitySelector {
	switch preference("METRICS_TEMPORALITY_PREFERENCE") {
	case "delta":
		return metricsdk.DeltaTemporalitySelector
	case "lowmemory":
		return metricsdk.LowMemoryTemporalitySelector
	}
	return metricsdk.DefaultTemporalitySelector
}

// aggregation returns how metrics are summed up.
func aggregation() metricsdk.AggregationSelector {
	if preference("METRICS_DEFAULT_HISTOGRAM_AGGREGATION") != "base2_exponential_bucket_histogram" {
		return metricsdk.DefaultAggregationSelector
	}
	return func(kind metricsdk.InstrumentKind) metricsdk.Aggregation {
		if kind == metricsdk.InstrumentKindHistogram {
			return metricsdk.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}
		}
		return metricsdk.DefaultAggregationSelector(kind)
	}
}

func preference(setting string) string {
	return strings.ToLower(strings.TrimSpace(os.Getenv(prefix + setting)))
}
