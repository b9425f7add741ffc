package telemetry

import (
	"cmp"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/otlp"
)

// collector returns how a signal is sent. The exporter takes missing settings from the standard
// variables; protocol is the variable with the protocol of this signal.
func (t *Telemetry) collector(protocol string) otlp.Options {
	return otlp.Options{Endpoint: t.cfg.Endpoint, GRPC: t.protocol(protocol) == config.OTLPgRPC, Headers: t.cfg.Headers, UserAgent: t.agent}
}

// protocol returns the protocol of a signal: from the configuration, or from the standard
// variables, first from variable, which is for this signal. OTLPHTTP replaces an unsupported
// protocol.
func (t *Telemetry) protocol(variable string) config.OTLPProtocol {
	name := cmp.Or(t.cfg.Protocol, config.OTLPProtocol(cmp.Or(os.Getenv(variable), os.Getenv(protocolVariable))))
	if name != config.OTLPgRPC {
		return config.OTLPHTTP
	}
	return name
}
