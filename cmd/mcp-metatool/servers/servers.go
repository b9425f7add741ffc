// Package servers has the verbs that look at the configured upstream servers: servers, check, doctor,
// cache, pins, sandbox, auth and secret.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli/control"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Commands returns the verbs about configured servers.
func Commands() []*cobra.Command {
	return []*cobra.Command{serversCommand(), checkCommand(), doctorCommand(), cacheCommand(), pinsCommand(), sandboxCommand(), authCommand(), secretCommand()}
}

func serversCommand() *cobra.Command {
	v := serversView{}
	cmd := &cobra.Command{
		Use:   "servers [NAME]",
		Short: "Start the upstream servers, or one, and report on each; exit code 1 if one fails",
		Long: `Start the upstream servers, or the one called NAME, and report on each. A server that
starts on first use (start = "lazy") is not started unless it is NAME or has never run.
The exit code is 1 if a server fails.

With --check, each server is then asked for its tools, and the call of its
[servers.NAME.probe] is made if it has one.

With --protocol, each server is asked over a second connection whether it speaks a
revision of MCP that has no initialize. A stdio server is started once more for this.
The answer is remembered for the next start.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				v.only = args[0]
			}
			return v.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	v.AddFlags(cmd, cli.Silent) // the report contains everything
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&v.names, "names", false, "print what agents call the servers' tools and prompts, instead")
	cmd.Flags().BoolVar(&v.check, "check", false, "check that the servers work, and report on that instead")
	cmd.Flags().BoolVar(&v.protocol, "protocol", false, "explain which revision of MCP each server speaks, and report on that instead")
	cmd.ValidArgsFunction = cli.Choices(v.Servers).Complete(1)
	cmd.MarkFlagsMutuallyExclusive("names", "check", "protocol")
	return cmd
}

// serversView is a run of servers.
type serversView struct {
	cli.Settings
	asJSON, names, check, protocol bool
	only                           string // name of the only server to report; "" for all
}

// serverReport is an upstream in the output of servers --json.
type serverReport struct {
	Name            string  `json:"name"`
	State           string  `json:"state"`     // ready, failed, asleep, disabled
	Transport       string  `json:"transport"` // stdio, http, sse
	Host            string  `json:"host,omitempty"`
	ServerName      string  `json:"serverName,omitempty"`
	ServerVersion   string  `json:"serverVersion,omitempty"`
	ProtocolVersion string  `json:"protocolVersion,omitempty"`
	Tools           int     `json:"tools"`
	Resources       int     `json:"resources"`
	Templates       int     `json:"resourceTemplates"`
	Prompts         int     `json:"prompts"`
	StartTime       float64 `json:"startTime,omitempty"` // milliseconds
	Sandbox         string  `json:"sandbox,omitempty"`   // the rights of a confined server, in short
	Restarts        int     `json:"restarts,omitempty"`
	Error           string  `json:"error,omitempty"`
}

type serversReport struct {
	Servers  []serverReport `json:"servers"`
	Problems []string       `json:"problems"` // collisions of names
}

func (v *serversView) run(ctx context.Context, w io.Writer) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	for _, p := range cfg.LeftOut() {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "warning: %s (the server is left out)\n", display.Text(cfg.NewMasker().Mask(p.Error())))
	}
	if v.only != "" {
		if cfg, err = cli.OnlyServer(cfg, v.only); err != nil {
			return cli.Usage(err)
		}
	}
	var servers serversReport
	var names namesReport
	var checks checksReport
	var protocols protocolsReport
	done := cli.StartingServers(v.Cmd, cfg)
	defer done()
	err = cli.WithServers(ctx, cfg, v.Logger(cfg), func(ctx context.Context, h *host.Host) error {
		states := h.Upstreams(ctx) // first, because Upstreams waits for the upstreams
		servers = newServersReport(cfg, states, h.Problems())
		names = newNamesReport(cfg, h.Names(), h.Problems())
		if v.protocol {
			protocols = newProtocolsReport(h.Protocols(ctx))
		}
		if v.check {
			checks = newChecksReport(h.Checkup(ctx))
		}
		return context.Cause(ctx)
	})
	done()
	if err != nil {
		return err
	}
	var report interface{ write(w io.Writer) error } = servers
	failed := servers.failed()
	switch {
	case v.names:
		report = names
	case v.protocol:
		report = protocols
	case v.check:
		report, failed = checks, !checks.Healthy
	}
	v.warnOfRefused(ctx, cfg)
	if v.asJSON {
		err = cli.WriteJSON(w, report)
	} else {
		err = report.write(w)
	}
	if err == nil && failed {
		err = cli.Failed(nil)
		if v.names { // the list of names does not show which are missing
			err = cli.Failed(errors.New("not every server is there (see: mcp-metatool servers)"))
		}
	}
	return err
}

// warnOfRefused names the running servers that could not reload this configuration.
func (v *serversView) warnOfRefused(ctx context.Context, cfg *config.Config) {
	run, err := control.OpenFolder(cfg.Store.Dir, false)
	if err != nil {
		return // none has run
	}
	defer run.Close()
	for _, name := range run.Sockets() {
		answer, err := run.Ask(ctx, name, control.Request{Config: cli.Absolute(cfg.Path), Refused: true})
		if err == nil && answer.Reload != nil && len(answer.Reload.Problems) > 0 {
			fmt.Fprintf(v.Cmd.ErrOrStderr(), "warning: server %d has refused a reload and keeps its old configuration: %s\n",
				answer.PID, display.Text(strings.Join(answer.Reload.Problems, "; ")))
		}
	}
}

// newServersReport makes the report, in the order of the configuration.
func newServersReport(cfg *config.Config, states []servers.Status, problems []string) serversReport {
	masker := cfg.NewMasker()
	byName := map[string]servers.Status{}
	for _, st := range states {
		byName[st.Name] = st
	}
	report := serversReport{Servers: []serverReport{}, Problems: maskAll(masker, problems)}
	for _, u := range cfg.Upstreams {
		r := serverReport{Name: u.Name, Transport: string(u.Transport), Host: masker.Mask(cli.HostOf(u.URL)), Sandbox: u.Sandbox.Summary()}
		st, ok := byName[u.Name]
		if !ok {
			r.State = "disabled"
			report.Servers = append(report.Servers, r)
			continue
		}
		r.State, r.ServerName, r.ServerVersion = string(st.State), masker.Mask(st.ServerName), masker.Mask(st.ServerVersion)
		r.ProtocolVersion = masker.Mask(st.ProtocolVersion)
		r.Tools, r.Resources, r.Templates, r.Prompts = st.Tools, st.Resources, st.Templates, st.Prompts
		r.StartTime, r.Restarts, r.Error = float64(st.StartTime.Microseconds())/1000, st.Restarts, masker.Mask(st.Err)
		report.Servers = append(report.Servers, r)
	}
	return report
}

func maskAll(masker *config.Masker, lines []string) []string {
	masked := make([]string, len(lines))
	for i, line := range lines {
		masked[i] = masker.Mask(line)
	}
	return masked
}

func (r serversReport) failed() bool {
	for _, s := range r.Servers {
		if s.State != string(servers.Ready) && s.State != string(health.Asleep) && s.State != "disabled" {
			return true
		}
	}
	return false
}

// write prints a table; details too long for a row go below.
func (r serversReport) write(w io.Writer) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no upstream servers are configured")
		return err
	}
	t := cli.NewTable(w)
	confined := slices.ContainsFunc(r.Servers, func(s serverReport) bool { return s.Sandbox != "" })
	head := []any{"NAME", "STATE", "TRANSPORT|VIA", "SERVER", "PROTOCOL", cli.Right("TOOLS"), cli.Right("RESOURCES|RES"), cli.Right("PROMPTS"), cli.Right("START"), "ERROR"}
	t.Head(withSandbox(head, "SANDBOX", confined)...)
	for _, s := range r.Servers {
		server := strings.TrimSpace(display.Line(s.ServerName+" "+s.ServerVersion, 40))
		tools, resources, prompts, start := "", "", "", ""
		if s.State == string(servers.Ready) || s.State == string(health.Asleep) {
			tools, resources, prompts = fmt.Sprint(s.Tools), fmt.Sprint(s.Resources), fmt.Sprint(s.Prompts)
			if s.Templates > 0 {
				resources += fmt.Sprintf("+%d", s.Templates) // the resources of templates cannot be counted
			}
		}
		if s.State == string(servers.Ready) {
			start = time.Duration(s.StartTime * float64(time.Millisecond)).Round(time.Millisecond).String()
		}
		first, _, _ := strings.Cut(s.Error, "\n")
		first = strings.TrimPrefix(first, fmt.Sprintf("upstream %q: ", s.Name))
		reached := strings.TrimSpace(s.Transport + " " + s.Host)
		row := []any{s.Name, cli.State(s.State), reached, server, s.ProtocolVersion, tools, resources, prompts, start, display.Cell{Text: first, Style: display.Bad}}
		t.Add(withSandbox(row, s.Sandbox, confined)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Servers {
		if _, more, ok := strings.Cut(s.Error, "\n"); ok {
			writeDetails(w, s.Name, strings.TrimSpace(more))
		}
	}
	return writeProblems(w, r.Problems)
}

// withSandbox inserts a cell about a server's sandbox after the third cell, if the table has the
// column.
func withSandbox(cells []any, sandbox string, column bool) []any {
	if !column {
		return cells
	}
	return slices.Insert(cells, 3, any(sandbox))
}

// writeDetails writes lines too long for the row of a server.
func writeDetails(w io.Writer, server, lines string) {
	fmt.Fprintf(cli.Raw(w), "\n%s\n", cli.Paint(w, display.Bold, display.Text(server)+":"))
	for line := range strings.SplitSeq(display.Text(lines), "\n") {
		if width := cli.Columns(w); width > 0 {
			line = strings.Join(display.Wrap(line, width-len("  ")), "\n  ")
		}
		fmt.Fprintf(cli.Raw(w), "  %s\n", line)
	}
}

func writeProblems(w io.Writer, problems []string) error {
	for _, p := range problems {
		if _, err := fmt.Fprintf(cli.Raw(w), "\n%s %s\n", cli.Paint(w, display.Caution, "problem:"), display.Text(p)); err != nil {
			return err
		}
	}
	return nil
}

// namesReport is the output of servers --names: the public names of the tools and
// prompts of the upstreams.
type namesReport struct {
	Names    []nameReport `json:"names"`    // in the order of the lists
	Problems []string     `json:"problems"` // collisions of names
}

// nameReport is a name in the output of servers --names --json.
type nameReport struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // tool, prompt
	Server string `json:"server"`
	Own    string `json:"ownName"`
	// Shortened says that Name ends in a hash and is not simply the prefix and Own.
	Shortened bool `json:"shortened"`
}

func newNamesReport(cfg *config.Config, names []catalog.Name, problems []string) namesReport {
	masker := cfg.NewMasker()
	report := namesReport{Names: []nameReport{}, Problems: maskAll(masker, problems)}
	for _, n := range names {
		kind := "tool"
		if n.Surface == wire.Prompts {
			kind = "prompt"
		}
		report.Names = append(report.Names, nameReport{
			Name: masker.Mask(n.Public), Kind: kind, Server: n.Server, Own: masker.Mask(n.Own), Shortened: n.Hashed,
		})
	}
	return report
}

// write prints a table.
func (r namesReport) write(w io.Writer) error {
	if len(r.Names) == 0 {
		if _, err := fmt.Fprintln(w, "agents see no tool or prompt of an upstream server"); err != nil {
			return err
		}
		return writeProblems(w, r.Problems)
	}
	t := cli.NewTable(w)
	t.Head("NAME", "KIND", "SERVER", "OWN NAME", "NOTE")
	for _, n := range r.Names {
		note := ""
		if n.Shortened {
			note = "made to fit: 64 letters, digits, _ and -"
		}
		t.Add(n.Name, n.Kind, n.Server, n.Own, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeProblems(w, r.Problems)
}

// checksReport is the output of servers --check: whether the upstreams work.
type checksReport struct {
	Healthy bool            `json:"healthy"`
	Servers []health.Report `json:"servers"`
}

func newChecksReport(reports []health.Report) checksReport {
	return checksReport{Healthy: health.Healthy(reports), Servers: append([]health.Report{}, reports...)}
}

// write prints a table, and below the table the details too long for a line.
func (r checksReport) write(w io.Writer) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no upstream servers are configured")
		return err
	}
	t := cli.NewTable(w)
	t.Head(toAny(health.Columns)...)
	for i := range r.Servers {
		row := toAny(r.Servers[i].Cells())
		for k, cell := range row {
			row[k] = cli.State(cell.(string))
		}
		t.Add(row...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Servers {
		if s.Details != nil {
			writeDetails(w, s.Server, strings.Join(s.Details, "\n"))
		}
	}
	return nil
}

func toAny(cells []string) []any {
	row := make([]any, len(cells))
	for i, cell := range cells {
		row[i] = cell
	}
	return row
}

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
	t := cli.NewTable(w)
	t.Head("NAME", "CONFIGURED", "PROTOCOL", "BECAUSE", "PROBE")
	for _, s := range r.Servers {
		probe := display.Line(s.Probe, 120)
		if s.Found != "" {
			probe = s.Found + ": " + probe
		}
		if s.Next != "" {
			probe += " (" + s.Next + ")"
		}
		t.Add(s.Server, s.Configured, s.Protocol, display.Line(s.How, 120), probe)
	}
	return t.Flush()
}
