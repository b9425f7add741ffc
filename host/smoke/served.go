package smoke

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

// servers returns the upstreams at the end of the checks: without all, nothing unless a check has
// started them; with all, they are started and waited for.
func (l *live) servers(ctx context.Context, all bool) []report.Server {
	if l.file.offline || l.host == nil && !all {
		return nil
	}
	var list []report.Server
	for _, u := range l.file.Config.Upstreams {
		if u.Disabled {
			continue
		}
		list = append(list, l.server(ctx, u.Name, all))
	}
	return list
}

// server returns the state of an upstream.
func (l *live) server(ctx context.Context, name string, wait bool) report.Server {
	s := report.Server{Name: name}
	if err := l.file.unset[name]; err != nil {
		s.Err = err.Error()
		return s
	}
	h, err := l.start()
	if err == nil && wait {
		err = l.waitForTools(ctx, h, name)
	}
	if err != nil {
		s.Err = err.Error()
		return s
	}
	st, _ := h.Status(name) // the zero Status if each session has its own process
	s.Product, s.Version, s.Protocol = st.ServerName, st.ServerVersion, st.ProtocolVersion
	for _, n := range h.Names() {
		if n.Surface == wire.Tools && n.Server == name {
			s.Tools = append(s.Tools, report.Tool{Name: n.Own, Called: l.runs.wasCalled(name, n.Own)})
		}
	}
	if st.State != servers.Ready && len(s.Tools) == 0 {
		s.Err = cmp.Or(st.Err, "it has not started")
	}
	return s
}

// waitForTools waits until an upstream has listed its tools.
func (l *live) waitForTools(ctx context.Context, h *host.Host, name string) error {
	limited, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	_, err := h.Snapshot(limited, name)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.startError(name, err)
}

// maskedServers returns servers without secrets.
func maskedServers(list []report.Server, mask func(string) string) []report.Server {
	for i := range list {
		s := &list[i]
		s.Product, s.Version, s.Protocol, s.Err = mask(s.Product), mask(s.Version), mask(s.Protocol), mask(s.Err)
		for k := range s.Tools {
			s.Tools[k].Name = mask(s.Tools[k].Name)
		}
	}
	return list
}

// digest returns the SHA-256 of the file's content.
func (f *File) digest() string {
	sum := sha256.Sum256(f.data)
	return hex.EncodeToString(sum[:])
}
