package telemetry

import (
	"cmp"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/otlp"
)

// collector returns how a signal is sent. What the configuration does not say, the exporter
// takes from the standard variables, of which the given one has the protocol of this signal.
func (t *Telemetry) collector(protocol string) otlp.Options {
	return otlp.Options{Endpoint: t.cfg.Endpoint, GRPC: t.protocol(protocol) == config.OTLPgRPC, Headers: t.cfg.Headers, UserAgent: t.agent}
}

// protocol returns the protocol of a signal: that of the configuration, or that of the
// standard variables, of which the first is for this signal. OTLPHTTP is also used in place
// of one that is not supported.
func (t *Telemetry) protocol(variable string) config.OTLPProtocol {
	name := cmp.Or(t.cfg.Protocol, config.OTLPProtocol(cmp.Or(os.Getenv(variable), os.Getenv(protocolVariable))))
	if name != config.OTLPgRPC {
		return config.OTLPHTTP
	}
	return name
}
