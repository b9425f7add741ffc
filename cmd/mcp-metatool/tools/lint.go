package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func lintCommand() *cobra.Command {
	v := lintView{}
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check scripts without running them; exit code 1 if a script has problems",
		Long: `Check scripts (FILE.star, or - for standard input) without running them. Errors are
reported, and probable mistakes, such as unused variables and code that is never
reached.

No server is started. With a configuration, the names of servers and saved tools are
checked against it. Without one, an unknown name such as x in x.y() is assumed to be a
server. With --connect, the servers are started, and the names and arguments of their
tools are checked too. A script alone has no inputSchema, so params.x is not checked;
that is done when a tool is saved.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd, args) },
	}
	cmd.ValidArgsFunction = cli.FilesOf("star")
	v.AddFlags(cmd, cli.Silent) // the output has the important notes
	cmd.Flags().BoolVar(&v.connect, "connect", false, "start the configured servers, and check names of tools and arguments")
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	return cmd
}

// lintView is a run of lint.
type lintView struct {
	cli.Settings
	connect, asJSON bool
}

// finding is a finding in the output of lint --json.
type finding struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"` // error, warning
	Message  string `json:"message"`

	source string
}

// scripts analyses scripts; see compose.Composer and host.Host.
type scripts interface {
	Check(ctx context.Context, name, code string) error
	Lint(ctx context.Context, name, code string) ([]compose.Warning, error)
	Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error)
}

func (v *lintView) run(cmd *cobra.Command, files []string) error {
	var given []cli.Script
	for _, file := range files {
		s, err := cli.ReadScript(cmd.Context(), file, cmd.InOrStdin())
		if err != nil {
			return cli.Usage(fmt.Errorf("lint: %w", err))
		}
		given = append(given, s)
	}
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	log := v.Logger(cfg)
	found := []finding{}
	look := func(ctx context.Context, with func(s cli.Script) (scripts, error)) error {
		for _, s := range given {
			c, err := with(s)
			if err != nil {
				return err
			}
			f, err := lint(ctx, s, c)
			if err != nil {
				return err
			}
			found = append(found, f...)
		}
		return nil
	}
	done := cli.Busy(cmd, "checking "+strings.Join(files, ", "))
	defer done()
	switch {
	case !v.connect:
		err = offline(cmd.Context(), cfg, log, nil, look)
	case cfg.Path == "":
		err = cli.Usage(fmt.Errorf("lint: --connect: there is no configuration (looked for %s)", strings.Join(cfg.Searched, ", ")))
	default:
		err = cli.WithHost(cmd.Context(), cfg, log, host.NoClient, func(ctx context.Context, h *host.Host) error {
			for _, st := range h.Upstreams(ctx) { // waits for them
				if st.Err != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "note: calls of %s are not checked: %s\n", st.Name, display.Line(v.Masker.Mask(st.Err), 300))
				}
			}
			return look(ctx, func(cli.Script) (scripts, error) { return h, nil })
		})
	}
	done()
	if err != nil {
		return err
	}
	if err := writeFindings(cmd.OutOrStdout(), found, v.asJSON); err != nil {
		return err
	}
	if len(found) > 0 {
		return cli.Failed(nil)
	}
	return nil
}

// lint returns the findings about a script.
func lint(ctx context.Context, s cli.Script, c scripts) ([]finding, error) {
	err := c.Check(ctx, s.Name, s.Code)
	var wrong *compose.SourceError
	switch {
	case errors.As(err, &wrong):
		f := finding{File: s.File, Line: 1, Column: 1, Severity: "error", Message: wrong.Message}
		if p := wrong.Position; p != nil {
			f.Line, f.Column, f.source = p.Line, p.Column, p.Source
		}
		return []finding{f}, nil
	case err != nil:
		return nil, fmt.Errorf("lint: %s: %w", s.File, err)
	}
	warnings, err := c.Lint(ctx, s.Name, s.Code)
	if err != nil {
		return nil, fmt.Errorf("lint: %s: %w", s.File, err)
	}
	var found []finding
	for _, w := range warnings {
		if w.Unchecked { // each server has a note, or servers were not to be asked
			continue
		}
		found = append(found, finding{s.File, w.Line, w.Column, "warning", w.Message, w.Source})
	}
	return found, nil
}

func writeFindings(w io.Writer, found []finding, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, found)
	}
	for _, f := range found {
		text := fmt.Sprintf("%s:%d:%d: %s: %s\n", f.File, f.Line, f.Column, f.Severity, f.Message)
		if cli.HasColor(w) {
			at := display.Text(fmt.Sprintf("%s:%d:%d:", f.File, f.Line, f.Column))
			if _, err := fmt.Fprintf(cli.Raw(w), "%s %s ", cli.Paint(w, display.Bold, at), cli.Paint(w, cli.State(f.Severity).Style, f.Severity+":")); err != nil {
				return err
			}
			text = f.Message + "\n"
		}
		if f.source != "" {
			text += compose.Excerpt(f.source, f.Column) + "\n"
		}
		if _, err := io.WriteString(w, display.Text(text)); err != nil {
			return err
		}
	}
	return nil
}

// offline analyses scripts without any server. known are the saved tools; nil: the saved tools of
// the store.
func offline(ctx context.Context, cfg *config.Config, log *slog.Logger, known compose.Saved, look func(context.Context, func(cli.Script) (scripts, error)) error) (err error) {
	box := sandbox.New(sandbox.Options{CacheDir: cli.CacheDir(log), Log: log})
	defer func() { err = errors.Join(err, box.Close()) }()
	options := compose.Options{Sandbox: box, Log: log, Upstreams: nowhere{}, AgentTools: builtin.Mentioned, Saved: known}
	if cfg.Path == "" {
		return look(ctx, func(s cli.Script) (scripts, error) {
			options.Catalog = nowhere{}
			l, err := compose.New(options).Inspect(ctx, s.Name, s.Code)
			if err != nil {
				return nil, err
			}
			options.Catalog = nowhere{servers: assumed(l)}
			return compose.New(options), nil
		})
	}
	store, err := host.OpenFolder(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	n := nowhere{real: map[string]string{}}
	for _, u := range cfg.Upstreams {
		if !u.Disabled {
			n.servers, n.real[abi.Ident(u.Name)] = append(n.servers, abi.Ident(u.Name)), u.Name
		}
	}
	options.Catalog, options.Saved = n, store
	if known != nil {
		options.Saved = known
	}
	c := compose.New(options)
	return look(ctx, func(cli.Script) (scripts, error) { return c, nil })
}

// assumed returns the names that can only be script names of servers.
func assumed(l abi.Lint) []string {
	var servers []string
	for _, n := range l.Calls {
		if n.Undefined {
			servers = append(servers, n.Server)
		}
	}
	return servers
}

// nowhere is a catalog of servers of which only the script names are known and which
// cannot be reached.
type nowhere struct {
	servers []string
	real    map[string]string // their real names; nil: they are the same
}

var errNowhere = errors.New("no server is started")

func (n nowhere) Servers() []string { return n.servers }

func (n nowhere) Resolve(server, tool string, _ bool) (string, string, error) {
	if real, ok := n.real[server]; ok {
		server = real
	}
	return server, tool, &catalog.NotFoundError{Kind: "tool", Server: server, Name: tool}
}

func (nowhere) InputSchema(string, string) []byte { return nil }

func (nowhere) Disabled() []string { return nil }

func (nowhere) Remembered(string) bool { return false }

func (nowhere) Ready(context.Context, route.Origin, string) error { return errNowhere }

func (nowhere) CallUpstream(context.Context, route.Origin, route.ScriptCall) wire.Reply {
	return wire.Reply{Result: route.ErrorResult(errNowhere.Error())}
}
