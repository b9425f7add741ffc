package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func pinsAcceptCommand() *cobra.Command {
	p := &pinsAcceptance{}
	cmd := p.command("accept [SERVER[.TOOL]...]", "Pin what the servers offer now", `Start the upstream servers, show what they offer that is not as it was pinned, and ask
whether to pin it. Without arguments, it is about all servers that are pinned. A running
proxy takes the new pins over within some seconds.`)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p.begin(p.cmd)
		return p.run(args, p.accept)
	}
	p.consent.addFlags(cmd)
	return cmd
}

// pinsAcceptance is one run of pins accept.
type pinsAcceptance struct {
	pinsView
	consent
}

// accept shows the differences, asks, and writes the file.
func (p *pinsAcceptance) accept(ctx context.Context, w io.Writer) error {
	p.consent.masked, p.consent.known = p.pinsView.masked, true // digests look like secrets
	settings := host.PinSettings(p.cfg)
	accepted, leftOut := 0, 0
	for _, s := range p.statuses {
		if s.err != nil {
			continue
		}
		if s.Pinned { // else everything is new
			p.writeFindings(w, s)
			fmt.Fprintln(w)
		}
		if len(p.targets) == 0 || p.whole(s.Server) {
			pins.Record(p.lock, s.Server, p.offers[s.Server])
		}
		left := pins.Accept(p.lock, settings, s.Findings)
		accepted, leftOut = accepted+len(s.Findings)-len(left), leftOut+len(left)
		for _, f := range left {
			if s.Pinned && slices.Contains(s.Findings, f) {
				continue // it was shown
			}
			fmt.Fprintf(raw(w), "%s %s\n", paint(w, display.Caution, "left out:"), display.Text(p.pinsView.masked(f.Text())))
		}
	}
	after, err := p.lock.Encode()
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if p.before != nil && string(p.before) == string(after) {
		text := "everything is as it was pinned"
		if leftOut > 0 {
			text = "nothing else differs from the pins"
		}
		fmt.Fprintln(w, text)
		return nil
	}
	where := p.cfg.PinsPath()
	file := change.File{Path: where, Before: p.before, After: after, Perm: pins.Perm, Write: p.kept.Write}
	if file.Write != nil {
		where = "the store of the fleet"
	}
	written, err := p.apply(ctx, p.cmd, fmt.Sprintf("Write this to %s?", where), file)
	if err == nil && written {
		fmt.Fprintf(w, "pinned %s in %s\n", plural(accepted, "definition"), where)
	}
	return err
}

// whole reports whether the arguments name a server as such.
func (p *pinsAcceptance) whole(server string) bool {
	for _, t := range p.targets {
		if t.server == server && t.name == "" {
			return true
		}
	}
	return false
}
