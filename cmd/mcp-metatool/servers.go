package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

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
	v.addFlags(cmd, silent) // the report contains everything
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&v.names, "names", false, "print what agents call the servers' tools and prompts, instead")
	cmd.Flags().BoolVar(&v.check, "check", false, "check that the servers work, and report on that instead")
	cmd.Flags().BoolVar(&v.protocol, "protocol", false, "explain which revision of MCP each server speaks, and report on that instead")
	cmd.ValidArgsFunction = choices(v.servers).complete(1)
	cmd.MarkFlagsMutuallyExclusive("names", "check", "protocol")
	return cmd
}

// serversView is one run of servers.
type serversView struct {
	settings
	asJSON, names, check, protocol bool
	only                           string // name of the only server to report; "" for all
}

// serverReport is one upstream in the output of servers --json.
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
	Sandbox         string  `json:"sandbox,omitempty"`   // what a confined server may do, in short
	Restarts        int     `json:"restarts,omitempty"`
	Error           string  `json:"error,omitempty"`
}

type serversReport struct {
	Servers  []serverReport `json:"servers"`
	Problems []string       `json:"problems"` // collisions of names
}

func (v *serversView) run(ctx context.Context, w io.Writer) error {
	cfg, err := v.load()
	if err != nil {
		return err
	}
	for _, p := range cfg.LeftOut() {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "warning: %s (the server is left out)\n", display.Text(cfg.NewMasker().Mask(p.Error())))
	}
	if v.only != "" {
		if cfg, err = onlyServer(cfg, v.only); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	var servers serversReport
	var names namesReport
	var checks checksReport
	var protocols protocolsReport
	done := startingServers(v.cmd, cfg)
	defer done()
	err = withServers(ctx, cfg, v.logger(cfg), func(ctx context.Context, h *host.Host) error {
		states := h.Upstreams(ctx) // first, because it waits for the upstreams
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
		err = writeJSON(w, report)
	} else {
		err = report.write(w)
	}
	if err == nil && failed {
		err = &exitError{code: exitFailed}
		if v.names { // the list of names does not show which are missing
			err = &exitError{exitFailed, errors.New("not every server is there (see: mcp-metatool servers)")}
		}
	}
	return err
}

// warnOfRefused names the running servers that could not reload this configuration.
func (v *serversView) warnOfRefused(ctx context.Context, cfg *config.Config) {
	run, err := openRunDir(cfg.Store.Dir, false)
	if err != nil {
		return // none has run
	}
	defer run.close()
	for _, name := range run.sockets() {
		answer, err := run.ask(ctx, name, controlRequest{Config: absolute(cfg.Path), Refused: true})
		if err == nil && answer.Reload != nil && len(answer.Reload.Problems) > 0 {
			fmt.Fprintf(v.cmd.ErrOrStderr(), "warning: server %d has refused a reload and keeps its old configuration: %s\n",
				answer.PID, display.Text(strings.Join(answer.Reload.Problems, "; ")))
		}
	}
}

// startingServers says that the command starts the servers of cfg, until done is called.
func startingServers(cmd *cobra.Command, cfg *config.Config) (done func()) {
	var names []string
	for _, u := range cfg.Upstreams {
		if !u.Disabled {
			names = append(names, u.Name)
		}
	}
	if len(names) == 0 {
		return func() {}
	}
	return busy(cmd, "starting the servers: "+strings.Join(names, ", "))
}

// onlyServer returns cfg with one of its upstreams, which is started at once.
func onlyServer(cfg *config.Config, name string) (*config.Config, error) {
	var names []string
	for _, u := range cfg.Upstreams {
		if u.Name == name {
			one := *cfg
			u.Start = config.Eager
			one.Upstreams = []config.Upstream{u}
			return &one, nil
		}
		names = append(names, u.Name)
	}
	return nil, unknownServer(name, names)
}

// unknownServer is the error for a name that none of the upstream servers has.
func unknownServer(name string, names []string) error {
	hint := "none is configured"
	if near := nearest.Names(name, names); near != nil {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else if len(names) > 0 {
		hint = "there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("no upstream server is called %q (%s)", name, hint)
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
		r := serverReport{Name: u.Name, Transport: string(u.Transport), Host: masker.Mask(hostOf(u.URL)), Sandbox: u.Sandbox.Summary()}
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

// hostOf returns the host of an address, with its port if it has one; "" for none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
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

// write prints a table; what does not fit into one line of it goes below.
func (r serversReport) write(w io.Writer) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no upstream servers are configured")
		return err
	}
	t := newTable(w)
	confined := slices.ContainsFunc(r.Servers, func(s serverReport) bool { return s.Sandbox != "" })
	head := []any{"NAME", "STATE", "TRANSPORT|VIA", "SERVER", "PROTOCOL", right("TOOLS"), right("RESOURCES|RES"), right("PROMPTS"), right("START"), "ERROR"}
	t.head(withSandbox(head, "SANDBOX", confined)...)
	for _, s := range r.Servers {
		server := strings.TrimSpace(display.Line(s.ServerName+" "+s.ServerVersion, 40))
		tools, resources, prompts, start := "", "", "", ""
		if s.State == string(servers.Ready) || s.State == string(health.Asleep) {
			tools, resources, prompts = fmt.Sprint(s.Tools), fmt.Sprint(s.Resources), fmt.Sprint(s.Prompts)
			if s.Templates > 0 {
				resources += fmt.Sprintf("+%d", s.Templates) // those that templates stand for cannot be counted
			}
		}
		if s.State == string(servers.Ready) {
			start = time.Duration(s.StartTime * float64(time.Millisecond)).Round(time.Millisecond).String()
		}
		first, _, _ := strings.Cut(s.Error, "\n")
		first = strings.TrimPrefix(first, fmt.Sprintf("upstream %q: ", s.Name))
		reached := strings.TrimSpace(s.Transport + " " + s.Host)
		row := []any{s.Name, state(s.State), reached, server, s.ProtocolVersion, tools, resources, prompts, start, display.Cell{Text: first, Style: display.Bad}}
		t.row(withSandbox(row, s.Sandbox, confined)...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, s := range r.Servers {
		if _, more, ok := strings.Cut(s.Error, "\n"); ok {
			writeDetails(w, s.Name, strings.TrimSpace(more))
		}
	}
	return writeProblems(w, r.Problems)
}

// withSandbox puts a cell about a server's sandbox behind the third one, if there is such a
// column.
func withSandbox(cells []any, sandbox string, column bool) []any {
	if !column {
		return cells
	}
	return slices.Insert(cells, 3, any(sandbox))
}

// writeDetails writes lines that did not fit into the row of a server.
func writeDetails(w io.Writer, server, lines string) {
	fmt.Fprintf(raw(w), "\n%s\n", paint(w, display.Bold, display.Text(server)+":"))
	for line := range strings.SplitSeq(display.Text(lines), "\n") {
		if width := columns(w); width > 0 {
			line = strings.Join(display.Wrap(line, width-len("  ")), "\n  ")
		}
		fmt.Fprintf(raw(w), "  %s\n", line)
	}
}

func writeProblems(w io.Writer, problems []string) error {
	for _, p := range problems {
		if _, err := fmt.Fprintf(raw(w), "\n%s %s\n", paint(w, display.Caution, "problem:"), display.Text(p)); err != nil {
			return err
		}
	}
	return nil
}
