package servers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func pinsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "Compare what the servers offer with what was pinned in tools.lock",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pinsStatusCommand(), pinsDiffCommand(), pinsAcceptCommand(), pinsVerifyCommand())
	return cmd
}

func pinsStatusCommand() *cobra.Command {
	p := &pinsView{}
	cmd := p.command("status [SERVER[.TOOL]...]", "Say what has changed since it was pinned", `Start the upstream servers and say how what they offer differs from the pins: what has
changed, what is new, what is gone, and what can be taken for something else.`)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return p.run(args, func(ctx context.Context, w io.Writer) error {
			if p.asJSON {
				return cli.WriteJSON(w, p.report())
			}
			return p.writeStatus(w)
		})
	}
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print JSON")
	return cmd
}

func pinsDiffCommand() *cobra.Command {
	p := &pinsView{}
	cmd := p.command("diff [SERVER[.TOOL]...]", "Show the differences between definitions and their pins", `Start the upstream servers and show what they offer that is not as it was pinned, line by
line.`)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return p.run(args, func(ctx context.Context, w io.Writer) error {
			if p.asJSON {
				return cli.WriteJSON(w, p.report())
			}
			return p.writeDiff(w)
		})
	}
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print JSON")
	return cmd
}

func pinsVerifyCommand() *cobra.Command {
	p := &pinsView{}
	cmd := p.command("verify [SERVER[.TOOL]...]", "Exit with 1 if anything is not as it was pinned", `Start the upstream servers and compare what they offer with the pins. The exit code is 1
if anything differs, is new or is gone, if a server is not pinned at all, or if one does
not start. Nothing is written.`)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		err := p.run(args, func(ctx context.Context, w io.Writer) error {
			if p.asJSON {
				return cli.WriteJSON(w, p.report())
			}
			return p.writeVerified(w)
		})
		if err == nil && p.drifted() {
			return cli.Failed(nil)
		}
		return err
	}
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print JSON")
	return cmd
}

// pinsView is a run of a verb of pins.
type pinsView struct {
	cli.Settings
	asJSON bool

	cfg      *config.Config
	masked   func(string) string
	targets  []pinTarget
	kept     *host.Pins
	before   []byte // the content of the file of pins; nil without a file
	lock     *pins.Lock
	offers   map[string]pins.Offer
	statuses []pinStatus
}

// pinStatus is an examined server.
type pinStatus struct {
	pins.Status
	mode config.PinMode
	err  error // why the comparison failed; nil for success
}

// pinTarget is the server or item named by an argument.
type pinTarget struct{ server, name string } // no name: the whole server

// command makes a verb with targets as arguments.
func (p *pinsView) command(use, short, long string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	cmd.ValidArgsFunction = cli.Choices(p.Servers).Complete(0)
	p.AddFlags(cmd, cli.Silent)
	return cmd
}

// run compares the servers in args, all by default, and then calls show.
func (p *pinsView) run(args []string, show func(ctx context.Context, w io.Writer) error) error {
	ctx := p.Cmd.Context()
	cfg, err := p.Load()
	if err != nil {
		return err
	}
	p.cfg, p.masked = cfg, cfg.NewMasker().Mask
	if err := p.read(ctx); err != nil {
		return cli.Usage(err)
	}
	defer p.kept.Close()
	servers, err := p.chosen(args)
	if err != nil {
		return cli.Usage(err)
	}
	if len(servers) == 0 {
		fmt.Fprintln(p.Cmd.ErrOrStderr(), "no upstream servers are configured")
	}
	if err := p.compare(ctx, servers); err != nil {
		return err
	}
	if err := show(ctx, p.Cmd.OutOrStdout()); err != nil {
		return err
	}
	if slices.ContainsFunc(p.statuses, func(s pinStatus) bool { return s.err != nil }) {
		return cli.Failed(nil)
	}
	return nil
}

// read reads the pins.
func (p *pinsView) read(ctx context.Context) (err error) {
	p.lock = pins.New()
	if p.kept, err = host.ReadPins(ctx, p.cfg, p.Logger(p.cfg)); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if p.before = p.kept.Data; p.before != nil {
		p.lock, err = pins.Decode(p.before, p.cfg.PinsPath())
	}
	return err
}

// chosen returns the servers in args. The default is the servers whose pins are not off or exist
// already; if no server qualifies, all servers.
func (p *pinsView) chosen(args []string) ([]*config.Upstream, error) {
	enabled := supervise.Enabled(p.cfg)
	var known []string
	byName := map[string]*config.Upstream{}
	for _, u := range enabled {
		known, byName[u.Name] = append(known, u.Name), u
	}
	var chosen []*config.Upstream
	for _, arg := range args {
		server, name, _ := strings.Cut(arg, ".")
		u := byName[server]
		if u == nil {
			return nil, cli.UnknownServer(server, known)
		}
		p.targets = append(p.targets, pinTarget{server, name})
		if !slices.Contains(chosen, u) {
			chosen = append(chosen, u)
		}
	}
	if len(args) > 0 {
		return chosen, nil
	}
	for _, u := range enabled {
		if p.cfg.PinsOf(u) != config.PinsOff || p.lock.Has(u.Name) {
			chosen = append(chosen, u)
		}
	}
	if len(chosen) == 0 {
		chosen = enabled
	}
	return chosen, nil
}

// compare starts servers and compares their offers with the pins.
func (p *pinsView) compare(ctx context.Context, servers []*config.Upstream) error {
	settings := host.PinSettings(p.cfg)
	only := *p.cfg
	only.Upstreams, only.Pins = nil, config.PinsOff // they are compared here
	for _, u := range servers {
		one := *u
		one.Start, one.Pins = config.Eager, ""
		only.Upstreams = append(only.Upstreams, one)
	}
	done := cli.StartingServers(p.Cmd, &only)
	defer done()
	p.offers = map[string]pins.Offer{}
	err := cli.WithServers(ctx, &only, p.Logger(p.cfg), func(ctx context.Context, h *host.Host) error {
		for _, u := range servers {
			s := pinStatus{Status: pins.Status{Server: u.Name}, mode: p.cfg.PinsOf(u)}
			var found supervise.Snapshot
			if found, s.err = h.Snapshot(ctx, u.Name); s.err == nil {
				p.offers[u.Name] = offerOf(found)
				s.Status = pins.Inspect(p.lock, settings, u.Name, p.offers[u.Name])
				s.Findings = slices.DeleteFunc(s.Findings, func(f *pins.Finding) bool { return !p.wants(f) })
			}
			p.statuses = append(p.statuses, s)
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	return p.checkTargets()
}

// wants reports whether the arguments name the subject of a finding.
func (p *pinsView) wants(f *pins.Finding) bool {
	return len(p.targets) == 0 || slices.ContainsFunc(p.targets, func(t pinTarget) bool {
		return t.server == f.Server && (t.name == "" || t.name == f.Name)
	})
}

// checkTargets returns an error if an argument names an item that neither the server nor its pins
// have.
func (p *pinsView) checkTargets() error {
	for _, t := range p.targets {
		offer, compared := p.offers[t.server]
		if t.name == "" || !compared || p.lock.HasItem(t.server, t.name) {
			continue
		}
		known := false
		for surface, items := range offer.Lists {
			known = known || slices.ContainsFunc(items, func(raw []byte) bool {
				name, _ := wire.GetString(raw, surface.Key())
				return name == t.name
			})
		}
		if !known {
			return cli.Usage(fmt.Errorf("server %q has no tool, prompt or resource template %q", t.server, t.name))
		}
	}
	return nil
}

// offerOf returns the offer in a snapshot.
func offerOf(s supervise.Snapshot) pins.Offer {
	o := pins.Offer{Handshake: s.Handshake, Lists: map[wire.Surface][][]byte{}}
	for surface, list := range s.Lists {
		o.Lists[surface] = list.Items
	}
	return o
}

// drifted reports whether any definition differs from its pin.
func (p *pinsView) drifted() bool {
	return slices.ContainsFunc(p.statuses, func(s pinStatus) bool { return s.err != nil || !s.Pinned || len(s.Findings) > 0 })
}

// The output of --json.
type (
	pinsReport struct {
		File    string             `json:"file"`
		Servers []pinsServerReport `json:"servers"`
	}
	pinsServerReport struct {
		Server   string           `json:"server"`
		Mode     config.PinMode   `json:"mode"`
		Pinned   bool             `json:"pinned"`
		Matches  int              `json:"matches"` // definitions equal to their pins
		Error    string           `json:"error,omitempty"`
		Findings []pinsItemReport `json:"findings"`
	}
	pinsItemReport struct {
		Kind    string             `json:"kind"` // server, tool, prompt, resource template
		Name    string             `json:"name,omitempty"`
		Reason  pins.Reason        `json:"reason"`
		Other   string             `json:"other,omitempty"` // the item with the similar name
		Error   string             `json:"error,omitempty"`
		Changes []pinsChangeReport `json:"changes,omitempty"`
	}
	pinsChangeReport struct {
		Path string    `json:"path"`
		Kind pins.Kind `json:"kind"`
		Was  string    `json:"was,omitempty"`
		Is   string    `json:"is,omitempty"`
	}
)

func (p *pinsView) report() pinsReport {
	r := pinsReport{File: p.cfg.PinsPath(), Servers: []pinsServerReport{}}
	for _, s := range p.statuses {
		server := pinsServerReport{Server: s.Server, Mode: s.mode, Pinned: s.Pinned, Matches: s.Matches, Findings: []pinsItemReport{}}
		if s.err != nil {
			server.Error = p.masked(s.err.Error())
		}
		for _, f := range s.Findings {
			item := pinsItemReport{Kind: f.Noun(), Name: p.masked(f.Name), Reason: f.Reason, Other: f.Other}
			if f.Err != nil {
				item.Error = p.masked(f.Err.Error())
			}
			for _, c := range f.Changes() {
				item.Changes = append(item.Changes, pinsChangeReport{p.masked(c.Path), c.Kind, p.masked(c.Was), p.masked(c.Is)})
			}
			server.Findings = append(server.Findings, item)
		}
		r.Servers = append(r.Servers, server)
	}
	return r
}

// writeStatus writes a table, and the differences below the table.
func (p *pinsView) writeStatus(w io.Writer) error {
	t := cli.NewTable(w)
	t.Head("SERVER", "PINS", cli.Right("SAME"), cli.Right("CHANGED"), cli.Right("NEW"), cli.Right("GONE"), "NOTE")
	for _, s := range p.statuses {
		count := map[pins.Reason]int{}
		for _, f := range s.Findings {
			count[f.Reason]++
		}
		changed := len(s.Findings) - count[pins.Unknown] - count[pins.Gone]
		note := display.Cell{}
		switch {
		case s.err != nil:
			text, _, _ := strings.Cut(p.masked(s.err.Error()), "\n")
			note = display.Cell{Text: strings.TrimPrefix(text, fmt.Sprintf("upstream %q: ", s.Server)), Style: display.Bad}
		case !s.Pinned:
			note = display.Cell{Text: "not pinned yet", Style: display.Caution}
		}
		t.Add(s.Server, string(s.mode), s.Matches, changed, count[pins.Unknown], count[pins.Gone], note)
	}
	if len(p.statuses) > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, s := range p.statuses {
		if s.Pinned {
			p.writeFindings(w, s)
		}
	}
	return nil
}

// writeFindings writes a line for each difference of a server.
func (p *pinsView) writeFindings(w io.Writer, s pinStatus) {
	for _, f := range s.Findings {
		fmt.Fprintf(cli.Raw(w), "\n%s %s\n", cli.Paint(w, display.Caution, string(f.Reason)+":"), display.Text(p.masked(f.Text())))
	}
}

// writeDiff writes the differences line by line.
func (p *pinsView) writeDiff(w io.Writer) error {
	first := true
	for _, s := range p.statuses {
		if s.err != nil {
			fmt.Fprintf(p.Cmd.ErrOrStderr(), "%s\n", display.Text(p.masked(s.err.Error())))
		}
		for _, f := range s.Findings {
			if !first {
				fmt.Fprintln(w)
			}
			first = false
			if err := p.writeItem(w, f); err != nil {
				return err
			}
		}
	}
	if first {
		fmt.Fprintln(w, "everything is as it was pinned")
	}
	return nil
}

// writeItem writes a difference line by line.
func (p *pinsView) writeItem(w io.Writer, f *pins.Finding) error {
	text := f.Item.String() + ": " + f.Summary()
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	fmt.Fprintf(cli.Raw(w), "%s\n", cli.Paint(w, display.Bold, display.Text(p.masked(text))))
	_, err := io.WriteString(cli.NewDiffWriter(w), p.masked(f.Diff()))
	return err
}

// writeVerified writes the differences, or a line about their absence.
func (p *pinsView) writeVerified(w io.Writer) error {
	same := 0
	for _, s := range p.statuses {
		same += s.Matches
		switch {
		case s.err != nil:
			fmt.Fprintf(cli.Raw(w), "%s\n", display.Text(p.masked(s.err.Error())))
		case !s.Pinned:
			fmt.Fprintf(cli.Raw(w), "server %q is not pinned (mcp-metatool pins accept %s)\n", s.Server, s.Server)
		default:
			for _, f := range s.Findings {
				fmt.Fprintf(cli.Raw(w), "%s\n", display.Text(p.masked(f.Text())))
			}
		}
	}
	if !p.drifted() {
		_, err := fmt.Fprintf(w, "%s of %s as pinned\n", cli.Plural(same, "definition"), cmp.Or(serverNames(p.statuses), "no server"))
		return err
	}
	return nil
}

func serverNames(statuses []pinStatus) string {
	var names []string
	for _, s := range statuses {
		names = append(names, s.Server)
	}
	return strings.Join(names, ", ")
}

func pinsAcceptCommand() *cobra.Command {
	p := &pinsAcceptance{}
	cmd := p.command("accept [SERVER[.TOOL]...]", "Pin what the servers offer now", `Start the upstream servers, show what they offer that is not as it was pinned, and ask
whether to pin it. Without arguments, it is about all servers that are pinned. A running
proxy takes the new pins over within some seconds.`)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p.Begin(p.Cmd)
		return p.run(args, p.accept)
	}
	p.Consent.AddFlags(cmd)
	return cmd
}

// pinsAcceptance is a run of pins accept.
type pinsAcceptance struct {
	pinsView
	cli.Consent
}

// accept shows the differences, asks, and writes the file.
func (p *pinsAcceptance) accept(ctx context.Context, w io.Writer) error {
	p.Consent.Masked, p.Consent.Known = p.pinsView.masked, true // digests look like secrets
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
				continue // the finding was shown
			}
			fmt.Fprintf(cli.Raw(w), "%s %s\n", cli.Paint(w, display.Caution, "left out:"), display.Text(p.pinsView.masked(f.Text())))
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
	written, err := p.Apply(ctx, p.Cmd, fmt.Sprintf("Write this to %s?", where), file)
	if err == nil && written {
		fmt.Fprintf(w, "pinned %s in %s\n", cli.Plural(accepted, "definition"), where)
	}
	return err
}

// whole reports whether the arguments name a whole server.
func (p *pinsAcceptance) whole(server string) bool {
	for _, t := range p.targets {
		if t.server == server && t.name == "" {
			return true
		}
	}
	return false
}
