package main

import (
	"fmt"
	"io"

	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// protocolsReport is the output of servers --protocol: which revision of MCP is spoken
// with each server, and why.
type protocolsReport struct {
	Servers []supervise.ProtocolReport `json:"servers"`
}

func newProtocolsReport(reports []supervise.ProtocolReport) protocolsReport {
	return protocolsReport{append([]supervise.ProtocolReport{}, reports...)}
}

func (r protocolsReport) write(w io.Writer) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no upstream servers are configured")
		return err
	}
	t := newTable(w)
	t.head("NAME", "CONFIGURED", "PROTOCOL", "BECAUSE", "PROBE")
	for _, s := range r.Servers {
		probe := display.Line(s.Probe, 120)
		if s.Found != "" {
			probe = s.Found + ": " + probe
		}
		if s.Next != "" {
			probe += " (" + s.Next + ")"
		}
		t.row(s.Server, s.Configured, s.Protocol, display.Line(s.How, 120), probe)
	}
	return t.flush()
}
