package config

import (
	"net/url"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// Telemetry says where traces and metrics go; see package telemetry. Everything is off
// unless the file switches it on.
type Telemetry struct {
	// OTLP sends to a collector. What the fields below do not say, the standard variables
	// OTEL_* do.
	OTLP bool
	// Endpoint is the address of the collector, http or https, without the path of a
	// signal; "" for that of the variables, or their default. Its path can contain a secret.
	Endpoint string
	// Protocol of OTLP; "" for that of the variables, or OTLPHTTP.
	Protocol OTLPProtocol
	// Headers are sent with every export. Values can be secret. Nil: those of the variables.
	Headers map[string]string
	// Traces and Metrics say what is sent.
	Traces, Metrics bool
	// Listen is HOST:PORT, where /metrics, /healthz and /readyz are served; "" for nowhere.
	Listen string
	// Tokens are the bearer tokens of which /metrics needs one; nil or empty: none.
	Tokens []bearer.Token
	// AllowedHosts is like that of HTTP, for Listen.
	AllowedHosts []string

	configured bool // the file has this table
}

// OTLPProtocol is how OTLP is transported.
type OTLPProtocol string

// The values of OTLPProtocol.
const (
	OTLPHTTP OTLPProtocol = "http/protobuf"
	OTLPgRPC OTLPProtocol = "grpc"
)

// LogFormat is the form of log entries.
type LogFormat string

// The values of LogFormat.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// LogFormats returns the values of LogFormat.
func LogFormats() []LogFormat { return []LogFormat{LogText, LogJSON} }

// decodeTelemetry reads [telemetry].
func decodeTelemetry(t *table, c *Config) {
	if t == nil {
		return
	}
	o := &c.Telemetry
	o.configured = true
	t.boolean("otlp", &o.OTLP)
	t.collector(o)
	choice(t, "protocol", &o.Protocol, OTLPHTTP, OTLPgRPC)
	o.Headers = t.headers(func(sub *table, name string, n *node) (string, bool) { return sub.expandPrivate(name, name, n) })
	t.boolean("traces", &o.Traces)
	t.boolean("metrics", &o.Metrics)
	if listen, ok := t.str("listen"); ok {
		if address, err := ParseListen(listen); err != nil {
			t.problem("listen", "%s %v", quoteWritten(t.node.fields["listen"]), err)
		} else {
			o.Listen = address
		}
	}
	o.Tokens = t.tokens(false)
	o.AllowedHosts = t.strs(t.key("allowed_hosts"), t.host)
	if !o.OTLP {
		for _, key := range []string{"endpoint", "protocol", "headers"} {
			if t.node.fields[key] != nil {
				t.problem(key, "is set, but nothing is sent (set otlp = true, or leave it out)")
			}
		}
	}
	if o.Listen == "" {
		for _, key := range []string{"tokens", t.key("allowed_hosts")} {
			if t.node.fields[key] != nil {
				t.problem(key, "is set, but nothing is served (set listen, or leave it out)")
			}
		}
	}
	t.close(telemetryAliases)
}

// telemetryAliases are the names that other programs use for these settings.
var telemetryAliases = map[string]string{
	"enabled": "otlp", "exporter": "otlp", "url": "endpoint", "collector": "endpoint",
	"address": "listen", "prometheus": "listen", "port": "listen", "token": "tokens", "hosts": "allowed_hosts",
}

// collector reads the address of the collector. It can contain a secret, so no problem
// quotes it.
func (t *table) collector(o *Telemetry) {
	n := t.get("endpoint", "a string", kindString)
	if n == nil {
		return
	}
	text, ok := t.expandPrivate("endpoint", "", n)
	if !ok {
		return
	}
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Hostname() == "":
		t.problem("endpoint", "is not an address of a collector (write http://127.0.0.1:4318, or https://HOST)")
	case address.User != nil:
		t.problem("endpoint", "has a user and a password, which a collector does not get (set headers)")
	case strings.ContainsAny(text, "?#"):
		t.problem("endpoint", "has a part after ? or #, which a collector does not get (leave it out)")
	default:
		o.Endpoint = text
	}
}

// telemetry describes where traces and metrics go.
func (d *description) telemetry(o *Telemetry) {
	const at = "telemetry."
	d.title("telemetry")
	if !o.OTLP {
		d.line("otlp", "off")
	} else {
		const variables = "as OTEL_* variables say"
		endpoint, protocol, signals := variables, variables, []string{}
		if o.Endpoint != "" {
			endpoint = d.shown(at+"endpoint", o.Endpoint)
		}
		if o.Protocol != "" {
			protocol = string(o.Protocol)
		}
		if o.Traces {
			signals = append(signals, "traces")
		}
		if o.Metrics {
			signals = append(signals, "metrics")
		}
		d.line("otlp", d.list("", signals, "nothing"))
		d.line("endpoint", endpoint)
		d.line("protocol", protocol)
		d.headers(at, o.Headers)
	}
	if o.Listen == "" {
		d.line("listen", "nowhere")
		return
	}
	d.line("listen", d.shown(at+"listen", o.Listen))
	d.line("tokens", d.tokens(o.Tokens))
	d.line("hosts", d.list(at+d.c.key("allowed_hosts"), o.AllowedHosts, "those of the address"))
}
