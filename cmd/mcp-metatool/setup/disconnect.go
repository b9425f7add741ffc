package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func disconnectCommand() *cobra.Command {
	d := &disconnection{}
	cmd := &cobra.Command{
		Use:   "disconnect HOST",
		Short: "Take mcp-metatool out of an MCP host",
		Long: `Take mcp-metatool out of the list of servers of an MCP host: ` + strings.Join(hostNames(), ", ") + `.
The change of each file is shown first, and you are asked. Comments and order are kept,
and so is a backup. The servers of mcp-metatool's configuration are not put back.`,
		Example: `  mcp-metatool disconnect cursor
  mcp-metatool disconnect cursor --config work.toml
  mcp-metatool disconnect claude-code --scope project --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.cmd = cmd
			return d.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.config, "config", "", "only entries that start mcp-metatool with this configuration `FILE` (default: with any)")
	f.StringVar(&d.scope, "scope", "", "only in this `SCOPE`: user, project, local (default: in all)")
	f.StringVar(&d.name, "name", "", "only the entry with this `NAME` (default: all entries that start mcp-metatool)")
	f.BoolVar(&d.useHost, "use-host-command", false, "run the host's own command instead of editing its file")
	d.Consent.AddFlags(cmd)
	return cmd
}

// disconnection is a run of disconnect.
type disconnection struct {
	cli.Consent
	config, scope, name string
	useHost             bool

	cmd  *cobra.Command
	sys  *clientconfig.System
	host *clientconfig.Host
}

func (d *disconnection) run(ctx context.Context, name string) (err error) {
	d.Consent.Begin(d.cmd)
	if d.host, err = findHost(name); err != nil {
		return err
	}
	if d.sys, err = clientconfig.NewSystem(""); err != nil {
		return err
	}
	if d.config != "" {
		if d.config, err = filepath.Abs(d.config); err != nil {
			return fmt.Errorf("disconnect: %w", err)
		}
	}
	known, found := d.scope == "", false
	for _, f := range d.host.Files(d.sys) {
		if d.scope != "" && f.Scope != clientconfig.Scope(d.scope) {
			continue
		}
		known = true
		l, err := clientconfig.Read(ctx, d.sys, f) // anew for each place: two places can be in one file
		if err != nil {
			return cli.Usage(fmt.Errorf("disconnect: %w (%s)", err, d.Unwritten()))
		}
		if names := d.entries(l); names != nil {
			found = true
			if err := d.remove(ctx, l, names); err != nil {
				return err
			}
		}
	}
	if !known {
		return cli.Usage(noScope(d.host, d.sys, d.scope))
	}
	switch {
	case found:
	case d.config != "":
		fmt.Fprintf(d.cmd.OutOrStdout(), "%s does not start mcp-metatool with %s\n", d.host.Title, display.EscapeLine(d.sys.Short(d.config)))
	default:
		fmt.Fprintf(d.cmd.OutOrStdout(), "mcp-metatool is not in %s\n", d.host.Title)
	}
	return nil
}

// entries returns the names of our entries in a file.
func (d *disconnection) entries(l *clientconfig.Listing) []string {
	var names []string
	for i := range l.Servers {
		if s := &l.Servers[i]; s.Self && (d.name == "" || s.Original == d.name) && (d.config == "" || configOf(s) == d.config) {
			names = append(names, s.Original)
		}
	}
	return names
}

// configOf returns the path of the configuration in an entry of ours, "" for none.
func configOf(s *clientconfig.Server) string {
	for i, arg := range s.Args {
		file, ok := strings.CutPrefix(arg, "--config=")
		if arg == "--config" && i+1 < len(s.Args) {
			file, ok = s.Args[i+1], true
		}
		if ok && (filepath.IsAbs(file) || s.Dir == "") {
			return filepath.Clean(file)
		} else if ok {
			return filepath.Join(s.Dir, file)
		}
	}
	return ""
}

// remove removes our entries from a file.
func (d *disconnection) remove(ctx context.Context, l *clientconfig.Listing, names []string) (err error) {
	if d.useHost {
		for _, name := range names {
			own := clientconfig.RemoveCommand(d.host, l.File.Scope, name)
			if own == nil {
				return cli.Usage(fmt.Errorf("disconnect: %s has no command for that entry (leave --use-host-command out)", d.host.Title))
			}
			if err := runOwn(ctx, d.cmd, &d.Consent, own); err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.File.CheckWrite(d.sys); err != nil {
		return cli.Usage(fmt.Errorf("disconnect: %w (%s)", err, d.Unwritten()))
	}
	after := l.Data
	for _, name := range names {
		if after, _, err = l.File.Remove(after, name); err != nil {
			return cli.Usage(fmt.Errorf("disconnect: %s: %w (%s)", l.File.Path, err, d.Unwritten()))
		}
	}
	d.Masked = hostMasker(l).Mask
	question := fmt.Sprintf("Take mcp-metatool out of %s?", d.sys.Short(l.File.Path))
	written, err := d.Consent.Apply(ctx, d.cmd, question, hostFileChange(l, after))
	if written {
		place := display.EscapeLine(d.sys.Short(l.File.Path))
		if slices.ContainsFunc(l.Servers, func(s clientconfig.Server) bool { return s.Self && !slices.Contains(names, s.Original) }) {
			fmt.Fprintf(d.cmd.OutOrStdout(), "%s no longer starts mcp-metatool as %s (%s)\n", d.host.Title, display.EscapeLine(strings.Join(names, ", ")), place)
		} else {
			fmt.Fprintf(d.cmd.OutOrStdout(), "%s no longer starts mcp-metatool (%s)\n", d.host.Title, place)
		}
		if len(l.Servers) == len(names) {
			d.explainEmpty(ctx, l)
		}
	}
	return err
}

// explainEmpty names the place of the servers that import --replace has taken out of a file.
func (d *disconnection) explainEmpty(ctx context.Context, l *clientconfig.Listing) {
	older := l.File
	older.Path += ".bak" // the first backup is the oldest
	before, err := clientconfig.Read(ctx, d.sys, older)
	if err != nil {
		return
	}
	others := 0
	for i := range before.Servers {
		if !before.Servers[i].Self {
			others++
		}
	}
	if others > 0 {
		fmt.Fprintf(d.cmd.OutOrStdout(), "it has no servers now; %s has %s that it had before: copy it back to have them again\n",
			display.EscapeLine(d.sys.Short(older.Path)), cli.Plural(others, "server"))
	}
}

// hostMasker returns a masker for the secrets of all servers of a host's file.
func hostMasker(l *clientconfig.Listing) *config.Masker {
	secrets := &config.Masker{}
	secrets.Add(l.SecretTexts()...)
	for i := range l.Servers {
		s := l.Servers[i].Clone()
		for _, secret := range s.Secrets(map[string]string{}) {
			secrets.Add(secret.Value)
		}
		if s.Self { // the variables of --env, whatever their names
			for _, v := range s.Env {
				if v.Name != config.EnvDir && v.Name != "PATH" {
					secrets.Add(v.Value)
				}
			}
		}
	}
	return secrets
}

func removeCommand() *cobra.Command {
	return editCommand("remove NAME...", "Remove upstream servers from the configuration",
		"Remove upstream servers from the configuration. The change is shown, and you are asked.\nComments and order of all else are kept.",
		"removed", func(f *edit.File, name string) error { return f.Remove(name) })
}

func enableCommand() *cobra.Command {
	return editCommand("enable NAME...", "Start disabled upstream servers again",
		"Start disabled upstream servers again. The change is shown, and you are asked.",
		"enabled", func(f *edit.File, name string) error { return disable(f, name, false) })
}

func disableCommand() *cobra.Command {
	return editCommand("disable NAME...", "Keep upstream servers in the configuration without starting them",
		"Keep upstream servers in the configuration without starting them. The change is shown,\nand you are asked.",
		"disabled", func(f *edit.File, name string) error { return disable(f, name, true) })
}

// disable sets whether a server is disabled, unless the state is right already.
func disable(f *edit.File, name string, disabled bool) error {
	cfg, err := f.Parse(config.LoadOptions{Policies: compile.Policy, Unset: func(string, *config.Problem) {}})
	if err != nil {
		return err
	}
	for _, u := range cfg.Upstreams {
		if u.Name == name && u.Disabled == disabled {
			return nil
		}
	}
	return f.Set(name, "disabled", disabled)
}

// editCommand makes a verb for changes to servers of the configuration.
func editCommand(use, short, long, done string, change func(f *edit.File, name string) error) *cobra.Command {
	e := &serverEdit{done: done, change: change}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.run(args) },
	}
	cmd.ValidArgsFunction = cli.Choices(e.Servers).Complete(0)
	e.Settings.AddFlags(cmd, cli.Silent)
	e.Consent.AddFlags(cmd)
	return cmd
}

// serverEdit is a run of remove, enable or disable.
type serverEdit struct {
	cli.Settings
	cli.Consent
	done   string // the state of the servers afterwards
	change func(f *edit.File, name string) error
}

func (e *serverEdit) run(names []string) error {
	e.Consent.Begin(e.Cmd)
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.Cmd.Context(), Flag: e.Config}
	f, err := edit.Open(opts)
	if err != nil {
		return cli.Usage(err)
	}
	before := f.Text()
	for _, name := range names {
		if err := e.edit(f, name); err != nil {
			return cli.Usage(err)
		}
	}
	if slices.Equal(before, f.Text()) {
		fmt.Fprintf(e.Cmd.OutOrStdout(), "%s: already %s\n", strings.Join(names, ", "), e.done)
		return nil
	}
	unset, err := unsetOf(opts, f.Parse)
	if err != nil {
		return cli.Usage(fmt.Errorf("nothing was written: %w", err))
	}
	for _, name := range names {
		if unset[name] != nil {
			fmt.Fprintf(e.Cmd.ErrOrStderr(), "note: %s needs variables that are not set here: %s (it works only where they are set)\n",
				name, strings.Join(unset[name], ", "))
		}
	}
	opts.Unset = func(string, *config.Problem) {} // they are no mistakes in the file
	e.Masked = f.Masker(opts).Mask
	written, err := e.Apply(e.Cmd.Context(), e.Cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err == nil && written {
		fmt.Fprintf(e.Cmd.OutOrStdout(), "%s %s\n", e.done, strings.Join(names, ", "))
	}
	return err
}

// edit changes a server.
func (e *serverEdit) edit(f *edit.File, name string) error {
	err := e.change(f, name)
	if !errors.Is(err, edit.ErrNoServer) {
		return err
	}
	known, failed := f.Names()
	if failed != nil {
		return failed
	}
	return cli.UnknownServer(name, known)
}
