package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
)

func serversCommand() *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Start every upstream server and report on each; exit code 1 if one fails",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return servers(cmd.Context(), s, cmd.OutOrStdout(), asJSON)
		},
	}
	s.addFlags(cmd, silent) // the report has it all
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// serverReport is one upstream in the output of servers --json.
type serverReport struct {
	Name            string  `json:"name"`
	State           string  `json:"state"` // ready, failed, disabled
	ServerName      string  `json:"serverName,omitempty"`
	ServerVersion   string  `json:"serverVersion,omitempty"`
	ProtocolVersion string  `json:"protocolVersion,omitempty"`
	Tools           int     `json:"tools"`
	StartTime       float64 `json:"startTime,omitempty"` // milliseconds
	Error           string  `json:"error,omitempty"`
}

type serversReport struct {
	Servers  []serverReport `json:"servers"`
	Problems []string       `json:"problems"` // collisions of names
}

func servers(ctx context.Context, s *settings, w io.Writer, asJSON bool) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	var report serversReport
	err = withHost(ctx, cfg, s.logger(cfg), func(ctx context.Context, h *host.Host) error {
		report = newServersReport(cfg, h.Upstreams(ctx), h.Problems())
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(w, report)
	} else {
		err = report.write(w)
	}
	if err == nil && report.failed() {
		return &exitError{code: exitFailed}
	}
	return err
}

// newServersReport puts the upstreams into the order of the configuration.
func newServersReport(cfg *config.Config, states []upstream.Status, problems []string) serversReport {
	masker := cfg.NewMasker()
	byName := map[string]upstream.Status{}
	for _, st := range states {
		byName[st.Name] = st
	}
	report := serversReport{Servers: []serverReport{}, Problems: []string{}}
	for _, u := range cfg.Upstreams {
		st, ok := byName[u.Name]
		if !ok {
			report.Servers = append(report.Servers, serverReport{Name: u.Name, State: "disabled"})
			continue
		}
		report.Servers = append(report.Servers, serverReport{
			Name: u.Name, State: string(st.State), ServerName: masker.Mask(st.ServerName),
			ServerVersion: masker.Mask(st.ServerVersion), ProtocolVersion: st.ProtocolVersion,
			Tools: st.Tools, StartTime: float64(st.StartTime.Microseconds()) / 1000, Error: masker.Mask(st.Err),
		})
	}
	for _, p := range problems {
		report.Problems = append(report.Problems, masker.Mask(p))
	}
	return report
}

func (r serversReport) failed() bool {
	for _, s := range r.Servers {
		if s.State != string(upstream.Ready) && s.State != "disabled" {
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
	t.row("NAME", "STATE", "SERVER", "PROTOCOL", "TOOLS", "START", "ERROR")
	for _, s := range r.Servers {
		server := strings.TrimSpace(oneLine(s.ServerName+" "+s.ServerVersion, 40))
		tools, start := "", ""
		if s.State == string(upstream.Ready) {
			tools = fmt.Sprint(s.Tools)
			start = time.Duration(s.StartTime * float64(time.Millisecond)).Round(time.Millisecond).String()
		}
		first, _, _ := strings.Cut(s.Error, "\n")
		first = strings.TrimPrefix(first, fmt.Sprintf("upstream %q: ", s.Name))
		t.row(s.Name, s.State, server, s.ProtocolVersion, tools, start, first)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, s := range r.Servers {
		if _, more, ok := strings.Cut(s.Error, "\n"); ok {
			fmt.Fprintf(w, "\n%s:\n  %s\n", s.Name, strings.ReplaceAll(printable(strings.TrimSpace(more)), "\n", "\n  "))
		}
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(w, "\nproblem: %s\n", printable(p)); err != nil {
			return err
		}
	}
	return nil
}
