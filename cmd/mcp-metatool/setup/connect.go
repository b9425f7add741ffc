package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func connectCommand() *cobra.Command {
	c := &connection{}
	list, asJSON := false, false
	cmd := &cobra.Command{
		Use:   "connect HOST | connect --list",
		Short: "Make an MCP host start mcp-metatool",
		Long: `Put mcp-metatool into the list of servers of an MCP host. HOST is one of:
` + strings.Join(hostNames(), ", ") + `.

The entry has the full paths of the binary and of the configuration, and the environment
that is needed: MCP_METATOOL_DIR if it is set, and PATH if a server of the configuration
would not be found with the short PATH of a host that is started from a desktop. The
command is shown in full, started once as the host will start it, and then the change of
the file is shown, and you are asked. Comments and order are kept, and so is a backup.
What is right already is not written again.

--list shows each host, whether its file is there, and whether mcp-metatool is in it.
--link prints links instead that make a host ask its user.`,
		Example: `  mcp-metatool connect --list
  mcp-metatool connect claude-desktop
  mcp-metatool connect cursor --scope project --dry-run`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.cmd = cmd
			switch {
			case list && len(args) > 0:
				return cli.Usage(errors.New("connect --list takes no host"))
			case list:
				return listConnections(cmd.Context(), cmd.OutOrStdout(), asJSON)
			case len(args) == 0:
				return cli.Usage(errors.New("connect: name a host (there are " + strings.Join(hostNames(), ", ") + "; connect --list shows them)"))
			}
			return c.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.config, "config", "", "configuration `FILE` (default: as for all commands)")
	f.StringVar(&c.scope, "scope", string(clientconfig.User), "for which folders: user (all), project (this one), local (this one, Claude Code only)")
	f.StringVar(&c.name, "name", "", "`NAME` of the entry (default: metatool)")
	f.StringArrayVar(&c.variables, "env", nil, "give mcp-metatool the variable `NAME[=VALUE]` (without a value: the one that it has here)")
	f.BoolVar(&c.noVerify, "no-verify", false, "do not start mcp-metatool as the host will")
	f.BoolVar(&c.useHost, "use-host-command", false, "run the host's own command instead of editing its file")
	f.BoolVar(&c.link, "link", false, "print one-click links instead of writing anything")
	f.BoolVar(&list, "list", false, "show all hosts and whether mcp-metatool is in them")
	f.BoolVar(&asJSON, "json", false, "with --list: print JSON")
	c.Consent.AddFlags(cmd)
	return cmd
}

// connection is a run of connect.
type connection struct {
	cli.Consent
	config, scope, name string
	variables           []string
	noVerify, useHost   bool
	link                bool

	cmd     *cobra.Command
	sys     *clientconfig.System
	host    *clientconfig.Host
	file    clientconfig.File
	listing *clientconfig.Listing
	planned *config.Config // the configuration, with placeholders for variables; nil: the configuration has mistakes
	// env are variables in addition to --env; references are the variables that the host has given
	// to other servers.
	env, references []clientconfig.Setting
	entry           clientconfig.Entry
	launch          clientconfig.Launch
}

func (c *connection) run(ctx context.Context, name string) (err error) {
	c.Consent.Begin(c.cmd)
	if c.host, err = findHost(name); err != nil {
		return err
	}
	if c.sys, err = clientconfig.NewSystem(""); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return cli.Usage(fmt.Errorf("connect: %w", err))
	}
	if err := c.prepare(); err != nil {
		return err
	}
	if c.link {
		return c.printLinks()
	}
	if c.useHost {
		return c.runHostCommand(ctx)
	}
	question := fmt.Sprintf("Put mcp-metatool into %s?", c.sys.Short(c.file.Path))
	if err := c.write(ctx, c.listing.Data, question); err != nil {
		return err
	}
	if others := c.listing.Foreign(); others > 0 {
		fmt.Fprintf(c.cmd.OutOrStdout(), "%s too (mcp-metatool import %s --replace takes their place)\n",
			starting(c.host, others), c.host.Name)
	}
	return nil
}

// starting says how many servers a host starts itself.
func starting(h *clientconfig.Host, n int) string {
	return fmt.Sprintf("%s starts %s of its own", h.Title, cli.Plural(n, "server"))
}

// open finds the file of the host and reads the file, and finds the configuration.
func (c *connection) open(ctx context.Context) error {
	place := slices.IndexFunc(c.host.Files(c.sys), func(f clientconfig.File) bool { return f.Scope == clientconfig.Scope(c.scope) })
	if place < 0 {
		return noScope(c.host, c.sys, c.scope)
	}
	c.file = c.host.Files(c.sys)[place]
	if err := c.file.CheckWrite(c.sys); err != nil {
		return err
	}
	var err error
	if c.listing, err = clientconfig.Read(ctx, c.sys, c.file); err != nil {
		return fmt.Errorf("%w (nothing was written)", err)
	}
	file, err := edit.Open(config.LoadOptions{Context: ctx, Flag: c.config})
	if err != nil {
		return err
	}
	if !file.Exists() {
		return fmt.Errorf("there is no configuration %s yet (write one, or copy the servers of a host: mcp-metatool import %s)", file.Path(), c.host.Name)
	}
	c.config = file.Path()
	c.planned, _ = file.Parse(config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: placeholder}) // the start reports the mistake
	return nil
}

// prepare makes the entry.
func (c *connection) prepare() error {
	binary, err := ownBinary()
	if err == nil {
		c.config, err = filepath.Abs(c.config)
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.entry = clientconfig.Entry{Name: c.entryName(), Command: binary, Args: []string{"--config", c.config}}
	if strings.HasPrefix(c.entry.Name, "-") || strings.ContainsFunc(c.entry.Name, unicode.IsControl) {
		return cli.Usage(fmt.Errorf("connect: %q is no name for an entry: programs would take it for an option (--name)", c.entry.Name))
	}
	for _, s := range c.listing.Servers {
		if s.Original == c.entry.Name && !s.Self {
			return cli.Usage(fmt.Errorf("connect: %s has another server called %s (choose another name for mcp-metatool: --name)", c.file.Path, s.Original))
		}
	}
	if dir := os.Getenv(config.EnvDir); dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		c.entry.Env = append(c.entry.Env, clientconfig.Setting{Name: config.EnvDir, Value: dir})
	}
	if err := c.addVariables(); err != nil {
		return cli.Usage(err)
	}
	c.entry.Refer(c.host, c.references)
	kept, err := c.file.Kept(c.listing.Data, &c.entry)
	if err != nil {
		return cli.Usage(fmt.Errorf("connect: %s: %w (nothing was written)", c.file.Path, err))
	}
	c.entry = *kept
	c.launch = c.host.Launch(c.sys, c.file.Scope, os.Environ()).With(c.kept(), os.Environ())
	c.addPath()
	secrets := &config.Masker{}
	for _, s := range c.entry.Env {
		if !c.isPublic(s) {
			secrets.Add(s.Value)
		}
	}
	others := hostMasker(c.listing)
	c.Masked = func(text string) string { return others.Mask(secrets.Mask(text)) }
	return nil
}

// entryName returns the name of the entry: the name asked for, the existing name, or the usual
// name.
func (c *connection) entryName() string {
	if self := c.listing.Self(); self != nil && c.name == "" {
		return self.Original
	}
	return cmp.Or(c.name, "metatool")
}

// kept returns the part of an existing entry that stays: variables that we do not set.
func (c *connection) kept() *clientconfig.Entry {
	kept := &clientconfig.Entry{}
	for i := range c.listing.Servers {
		s := &c.listing.Servers[i]
		if !s.Self || s.Original != c.entry.Name {
			continue
		}
		for _, v := range s.Env {
			if v.Value == "${"+v.Name+":-}" { // env_vars of Codex
				kept.Pass = append(kept.Pass, v.Name)
				continue
			}
			at := slices.IndexFunc(s.References, func(r clientconfig.Setting) bool { return v.Value == "${"+r.Name+"}" })
			if at >= 0 {
				v.Value = s.References[at].Value
			} else {
				v.Value = strings.ReplaceAll(v.Value, "$${", "${")
			}
			kept.Env = append(kept.Env, v)
		}
	}
	return kept
}

// addVariables adds the variables of --env to the entry.
func (c *connection) addVariables() error {
	for _, v := range c.variables {
		name, value, given := strings.Cut(v, "=")
		if name == "" {
			return fmt.Errorf("connect: --env %q has no name", v)
		}
		switch set, ok := os.LookupEnv(name); {
		case given:
		case c.host.Name == "codex":
			c.entry.Pass = append(c.entry.Pass, name)
			continue
		case !ok:
			return fmt.Errorf("connect: --env %s: it is not set here (set it, or give its value: --env %s=...)", name, name)
		default:
			value = set
		}
		c.env = append(c.env, clientconfig.Setting{Name: name, Value: value})
	}
	for _, s := range c.env {
		had := slices.ContainsFunc(c.entry.Env, func(e clientconfig.Setting) bool { return e.Name == s.Name })
		if !had {
			c.entry.Env = append(c.entry.Env, s)
		}
	}
	return nil
}

// write shows the command, starts the command as the host will, and writes the entry into text, the
// content of the host's file.
func (c *connection) write(ctx context.Context, text []byte, question string) error {
	after, err := c.file.Set(text, &c.entry)
	if err != nil {
		return cli.Usage(fmt.Errorf("connect: %s: %w (%s)", c.file.Path, err, c.Unwritten()))
	}
	out := c.cmd.OutOrStdout()
	fmt.Fprintf(out, "%s will start: %s\n", c.host.Title, display.EscapeLine(c.Masked(c.entry.CommandLine())))
	if who := clientconfig.Transient(c.entry.Command); who != "" {
		fmt.Fprintf(out, "warning: that file will be deleted by %s (install mcp-metatool and connect again)\n", who)
	}
	for _, s := range c.entry.Env {
		fmt.Fprintf(out, "  with %s=%s\n", display.EscapeLine(s.Name), display.EscapeLine(c.Masked(s.Value)))
	}
	if c.file.Shared {
		fmt.Fprintf(out, "note: %s is usually shared through version control, and the entry has paths (and variables) of this machine\n",
			display.EscapeLine(c.sys.Short(c.file.Path)))
	}
	if own := c.entry.AddCommand(c.host, c.file.Scope); own != nil && c.variableNames() == nil {
		fmt.Fprintf(out, "its own command for that (--use-host-command runs it): %s\n", display.EscapeLine(c.Masked(commandLine(own))))
	}
	if err := c.verify(ctx); err != nil {
		return err
	}
	if c.listing.Exists && bytes.Equal(after, c.listing.Data) {
		fmt.Fprintf(out, "%s starts it already (%s)\n", c.host.Title, display.EscapeLine(c.sys.Short(c.file.Path)))
		return nil
	}
	written, err := c.Consent.Apply(ctx, c.cmd, question, hostFileChange(c.listing, after))
	if err != nil {
		return err
	}
	if written {
		fmt.Fprintf(out, "%s starts mcp-metatool (%s); restart it, or reload its servers\n", c.host.Title, display.EscapeLine(c.sys.Short(c.file.Path)))
	}
	return nil
}

// printLinks prints links that make the host ask its user.
func (c *connection) printLinks() error {
	names := c.variableNames()
	links := c.entry.Links(c.host, names)
	if links == nil {
		return cli.Usage(fmt.Errorf("connect: %s has no such links (cursor and vscode have them)", c.host.Title))
	}
	out := c.cmd.OutOrStdout()
	fmt.Fprintf(out, "They make it start: %s\n", display.EscapeLine(c.Masked(c.entry.CommandLine())))
	for _, name := range names {
		fmt.Fprintf(out, "note: the value of %s is not in the link: set %s where %s is started, or connect without --link\n", name, name, c.host.Title)
	}
	for _, l := range links {
		if _, err := fmt.Fprintf(out, "%s:\n%s\n", l.Label, l.URL); err != nil {
			return err
		}
	}
	return nil
}

// runHostCommand runs the host's own command.
func (c *connection) runHostCommand(ctx context.Context) error {
	own := c.entry.AddCommand(c.host, c.file.Scope)
	if own == nil {
		return cli.Usage(fmt.Errorf("connect: %s has no command for that (leave --use-host-command out)", c.host.Title))
	}
	if names := c.variableNames(); names != nil {
		return cli.Usage(fmt.Errorf("connect: the command of %s would have the value of %s in it, where other programs can read it: nothing was run (leave --use-host-command out)",
			c.host.Title, strings.Join(names, ", ")))
	}
	if err := c.verify(ctx); err != nil {
		return err
	}
	return runOwn(ctx, c.cmd, &c.Consent, own)
}

// runOwn shows a command of a host, asks, and runs the command.
func runOwn(ctx context.Context, cmd *cobra.Command, consent *cli.Consent, own []string) error {
	out := cmd.OutOrStdout()
	line := display.EscapeLine(commandLine(own))
	if consent.Masked != nil {
		line = consent.Masked(line)
	}
	fmt.Fprintf(out, "to run: %s\n", line)
	switch {
	case consent.DryRun:
		return nil
	case consent.Yes:
	case consent.Asker == nil:
		return cli.Usage(errors.New("nothing was run: there is no terminal to ask on (--yes runs it without asking)"))
	default:
		yes, err := consent.Asker.Confirm(ctx, "Run this?")
		if err != nil {
			return err
		}
		if !yes {
			return cli.Failed(nil)
		}
	}
	run := exec.CommandContext(ctx, own[0], own[1:]...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, out, cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return fmt.Errorf("%s: %w", own[0], err)
	}
	return nil
}

// verifyTimeout bounds the start. Servers that npx installs first take long.
const verifyTimeout = 2 * time.Minute

// verify starts mcp-metatool as the host will, and asks for the tools and for the state of the
// servers.
func (c *connection) verify(ctx context.Context) error {
	if c.noVerify {
		return nil
	}
	out := c.cmd.OutOrStdout()
	launch := c.launch.With(&c.entry, os.Environ())
	if missing := c.missing(ctx, launch); len(missing) > 0 {
		return fmt.Errorf("connect: the configuration needs %s, which %s does not have: %s (--env NAME gives mcp-metatool the value that it has here; --no-verify writes the entry as it is)",
			strings.Join(missing, ", "), c.host.Title, c.Unwritten())
	}
	u := servers.Start(servers.Spec{
		Name: c.entry.Name, Command: c.entry.Command, Args: c.entry.Args, Env: launch.Env, Dir: launch.Dir,
		Timeout: verifyTimeout, Restart: servers.RestartNever, Protocol: servers.ProtocolLegacy,
	}, servers.Options{ClientName: "mcp-metatool connect", ClientVersion: cli.CurrentVersion(), Log: slog.New(slog.DiscardHandler)})
	defer u.Close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	defer cli.Busy(c.cmd, "starting mcp-metatool as "+c.host.Title+" will")()
	if err := u.Ready(ctx); err != nil {
		if state := u.Status(); state.Err != "" {
			err = errors.New(state.Err)
		}
		return fmt.Errorf("connect: mcp-metatool does not work when it is started as %s starts it: %s. To write the entry without this check, give --no-verify. The error: %w", c.host.Title, c.Unwritten(), err)
	}
	status := u.Status()
	fmt.Fprintf(out, "started as %s will start it: %s, %s in %s\n", c.host.Title,
		strings.TrimSpace(status.ServerName+" "+status.ServerVersion), cli.Plural(status.Tools, "tool"), status.StartTime.Round(time.Millisecond))
	for _, problem := range unhealthy(ctx, u) {
		fmt.Fprintf(out, "warning: %s\n", display.EscapeLine(problem))
	}
	return nil
}

// missing returns the variables that the configuration needs and the launch lacks.
func (c *connection) missing(ctx context.Context, launch clientconfig.Launch) []string {
	_, err := config.Load(config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: c.config, Getenv: launch.Getenv})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil // the start finds any other problem
	}
	var names []string
	for _, e := range joined.Unwrap() {
		if unset := new(config.UnsetError); errors.As(e, &unset) {
			names = append(names, unset.Var)
		}
	}
	return names
}

// unhealthy describes the failures of the servers behind a running mcp-metatool.
func unhealthy(ctx context.Context, u *servers.Upstream) []string {
	reply, err := u.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"health_check","arguments":{}}`)})
	if err != nil || reply.Error != nil {
		return nil // the start succeeded, and only the start was in question
	}
	var result struct {
		StructuredContent struct {
			Servers []health.Report `json:"servers"`
		} `json:"structuredContent"`
	}
	if jsonvalue.Unmarshal(reply.Result, &result) != nil {
		return nil
	}
	var problems []string
	for _, r := range result.StructuredContent.Servers {
		if r.Check == health.Failed {
			problems = append(problems, fmt.Sprintf("server %s does not work: %s", r.Server, cmp.Or(r.Error, r.LastError, string(r.State))))
		}
	}
	return problems
}

// addPath adds our PATH to the entry if the PATH of the host lacks a server of the configuration.
func (c *connection) addPath() {
	here := os.Getenv("PATH")
	there, _ := c.launch.Getenv("PATH") // perhaps the PATH of an existing entry
	if there == here || c.planned == nil {
		return
	}
	for _, u := range c.planned.Upstreams {
		if !u.Disabled && u.Transport == config.Stdio && u.Env["PATH"] == "" && !findable(u.Command, there) && findable(u.Command, here) {
			c.entry.Env = append(c.entry.Env, clientconfig.Setting{Name: "PATH", Value: cleanPath(here)})
			return
		}
	}
}

// findable reports whether a PATH has a command and the interpreter in its first line.
func findable(command, path string) bool {
	if filepath.Base(command) == command {
		found, ok := clientconfig.Find(command, path)
		if !ok {
			return false
		}
		command = found
	}
	f, err := regular.Open(command)
	if err != nil {
		return false
	}
	f.Close()
	interpreter := clientconfig.Interpreter(command)
	if interpreter == "" {
		return true
	}
	_, ok := clientconfig.Find(interpreter, path)
	return ok
}

// cleanPath returns a PATH with each folder once, and without relative ones.
func cleanPath(path string) string {
	var dirs []string
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// hostReport is a place of a host's servers in the output of connect --list --json.
type hostReport struct {
	Host   string             `json:"host"`
	Title  string             `json:"title"`
	Scope  clientconfig.Scope `json:"scope"`
	File   string             `json:"file"`
	Exists bool               `json:"exists"`
	// Connected says that mcp-metatool is among the servers; Entry is the name of mcp-metatool in
	// the file, and Command the command that the host starts.
	Connected bool   `json:"connected"`
	Entry     string `json:"entry,omitempty"`
	Command   string `json:"command,omitempty"`
	// Others is the number of other servers.
	Others int `json:"others"`
	// Problem says why the file cannot be used, or describes the mistake in the entry.
	Problem string `json:"problem,omitempty"`
}

// listConnections prints all hosts.
func listConnections(ctx context.Context, w io.Writer, asJSON bool) error {
	sys, err := clientconfig.NewSystem("")
	if err != nil {
		return err
	}
	reports := []hostReport{}
	for _, h := range clientconfig.Hosts() {
		for _, f := range h.Files(sys) {
			reports = append(reports, reportHost(ctx, sys, f))
		}
	}
	if asJSON {
		return cli.WriteJSON(w, map[string]any{"hosts": reports})
	}
	t := cli.NewTable(w)
	t.Head("HOST", "SCOPE", "FILE", "MCP-METATOOL", "OTHER SERVERS", "PROBLEM")
	for _, r := range reports {
		connected, others := "no", fmt.Sprint(r.Others)
		switch {
		case !r.Exists:
			connected, others = "-", "-"
		case r.Connected:
			connected = "yes (" + r.Entry + ")"
		}
		file := sys.Short(r.File)
		if !r.Exists && r.Problem == "" {
			file += " (none)"
		}
		t.Add(r.Host, r.Scope, file, connected, others, r.Problem)
	}
	return t.Flush()
}

// reportHost examines a place.
func reportHost(ctx context.Context, sys *clientconfig.System, f clientconfig.File) hostReport {
	r := hostReport{Host: f.Host.Name, Title: f.Host.Title, Scope: f.Scope, File: f.Path}
	l, err := clientconfig.Read(ctx, sys, f)
	if err != nil {
		r.Exists, r.Problem = true, err.Error()
		return r
	}
	r.Exists, r.Others = l.Exists, l.Foreign()
	self := l.Self()
	if self == nil {
		return r
	}
	r.Connected, r.Entry, r.Command = true, self.Original, starts(self)
	binary, err := os.Executable()
	switch info, bad := os.Stat(self.Command); {
	case self.Disabled:
		r.Problem = "it is disabled, so the host does not start it (connect again)"
	case !filepath.IsAbs(self.Command):
		r.Problem = "the command has no full path, so the host may not find it (connect again)"
	case bad != nil:
		r.Problem = "there is no " + self.Command + " (connect again)"
	case clientconfig.Transient(self.Command) != "":
		r.Problem = "its file will be deleted by " + clientconfig.Transient(self.Command) + " (install mcp-metatool, and connect again)"
	case err == nil:
		if own, err := os.Stat(binary); err == nil && !os.SameFile(info, own) {
			r.Problem = "it starts another binary: " + self.Command
		}
	}
	return r
}

// ownBinary returns the path of this program for a host's file.
func ownBinary() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return stableBinary(own, os.Args[0])
}

// stableBinary returns the path of a program that was started as started: the path started, or the
// path in PATH, if both lead to the same file. Package managers change the links with each version,
// and delete the file.
func stableBinary(own, started string) (string, error) {
	info, err := os.Stat(own)
	if err != nil {
		return "", err
	}
	paths := []string{own}
	for _, name := range []string{started, filepath.Base(started), filepath.Base(own)} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			continue
		}
		if same, err := os.Stat(path); err == nil && os.SameFile(info, same) {
			paths = append(paths, path)
		}
	}
	paths = append(paths[1:], own) // the own path of the program is the last resort
	for _, path := range paths {
		if clientconfig.Transient(path) == "" {
			return path, nil
		}
	}
	return paths[0], nil
}

// variableNames returns the names of variables of the entry with values of the person.
func (c *connection) variableNames() []string {
	var names []string
	for _, s := range c.entry.Env {
		if !c.isPublic(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// isPublic reports whether a variable of the entry holds no value of the person: a path of ours, or
// a reference that the host resolves.
func (c *connection) isPublic(s clientconfig.Setting) bool {
	return s.Name == config.EnvDir || s.Name == "PATH" || slices.Contains(c.references, s) || strings.HasPrefix(s.Value, "${")
}
