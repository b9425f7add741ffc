package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// try starts the server once and shows its tools. A server that does not work is added only
// if the person wants that.
func (a *addition) try(ctx context.Context) error {
	if !a.starts() {
		return nil
	}
	var failed string
	for _, transport := range a.transports() {
		a.server.Transport = transport
		message, err := a.start(ctx)
		if err != nil {
			return err
		}
		if message == "" {
			return nil
		}
		failed = firstOf(failed, message)
	}
	if a.document == nil {
		a.server.Transport = config.Transport(a.transport)
	}
	out := a.cmd.ErrOrStderr()
	fmt.Fprintf(out, "%s does not work: %s\n", a.name, display.Text(failed))
	if !a.interactive {
		hint := "--no-start adds it anyway"
		if a.server.URL != "" {
			hint += ", --oauth if it requires a login"
		}
		return &exitError{exitFailed, fmt.Errorf("nothing was written: %s does not work (%s)", a.name, hint)}
	}
	yes, err := a.asker.confirm(ctx, "Add it anyway?")
	if err == nil && !yes {
		err = &exitError{code: exitFailed}
		fmt.Fprintln(out, "nothing was written")
	}
	return err
}

// transports returns the transports to try, in order: both, if nothing is known about a
// server with an address.
func (a *addition) transports() []config.Transport {
	if a.server.URL == "" || a.transport != "" || a.document != nil {
		return []config.Transport{a.server.Transport}
	}
	if u, err := url.Parse(a.server.URL); err == nil && path.Base(u.Path) == "sse" {
		return []config.Transport{config.LegacySSE, config.StreamableHTTP}
	}
	return []config.Transport{config.StreamableHTTP, config.LegacySSE}
}

// start starts the server and shows its tools. It returns why the server does not work, ""
// if it does.
func (a *addition) start(ctx context.Context) (string, error) {
	disabled := a.server.Disabled
	a.server.Disabled = false // here all variables have values
	err := a.put()
	a.server.Disabled = disabled
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	cfg, err := a.file.Parse(a.loadOptions())
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	if cfg, err = onlyServer(cfg, a.name); err != nil {
		return "", err
	}
	cfg.Upstreams[0].Detect = false // each transport is tried on its own
	done := busy(a.cmd, "starting "+a.name)
	defer done()
	failed := ""
	err = withServers(ctx, cfg, a.logger(cfg), func(ctx context.Context, h *host.Host) error {
		st := h.Upstreams(ctx)[0] // the only one
		if st.State != servers.Ready {
			failed = a.masker.Mask(firstOf(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), "it has not become ready"))
			return context.Cause(ctx)
		}
		snapshot, err := h.Snapshot(ctx, st.Name)
		if err != nil {
			return err
		}
		done()
		return a.showTools(a.cmd.OutOrStdout(), st, snapshot.Lists[wire.Tools].Items)
	})
	return failed, err
}

// maxShownTools is how many tools are listed.
const maxShownTools = 100

// showTools lists the tools of the server.
func (a *addition) showTools(w io.Writer, st servers.Status, tools [][]byte) error {
	mask := func(text string) string { return display.EscapeLine(a.masker.Mask(text)) }
	fmt.Fprintf(w, "%s works: %s, protocol %s, started in %s, tools: %d\n\n", a.name,
		strings.TrimSpace(mask(st.ServerName+" "+st.ServerVersion)), mask(st.ProtocolVersion), st.StartTime.Round(time.Millisecond), len(tools))
	t := newTable(w)
	t.head("TOOL", "DESCRIPTION")
	for _, tool := range tools[:min(len(tools), maxShownTools)] {
		name, _ := wire.GetString(tool, "name")
		description, _ := wire.GetString(tool, "description")
		t.row(mask(name), display.Line(a.masker.Mask(description), 200))
	}
	if err := t.flush(); err != nil {
		return err
	}
	more := ""
	if n := len(tools) - maxShownTools; n > 0 {
		more = fmt.Sprintf("and %d more\n", n)
	}
	_, err := fmt.Fprintln(w, more)
	return err
}
