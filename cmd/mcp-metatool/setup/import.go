package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

func importServersCommand() *cobra.Command {
	m := &hostImport{}
	cmd := &cobra.Command{
		Use:   "import HOST|FILE",
		Short: "Copy the servers of an MCP host into the configuration",
		Long: `Copy the servers that an MCP host is configured with into the configuration of
mcp-metatool. HOST is one of: ` + strings.Join(hostNames(), ", ") + `.
All of its files are read: those of the user and those of the folder you are in. FILE
is any file with servers in the form of a host.

What was understood is shown first, with what the configuration has already, then the
change of the configuration, and you are asked. Comments and order are kept. Servers that
differ from those in the configuration stay as they are there, unless you give
--overwrite.

Secrets in plain text are not copied without your consent: with --secrets env they become
environment variables, which you set where mcp-metatool is started, with --secrets
keyring they are put into your keyring, and with --secrets keep they are copied as they
are.

With --replace, mcp-metatool then takes the place of these servers in the host's file,
of which a backup is kept. See also: connect.`,
		Example: `  mcp-metatool import cursor --dry-run
  mcp-metatool import claude-desktop --secrets env --replace`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), cmd, args[0])
		},
	}
	m.Settings.AddFlags(cmd, cli.Silent)
	m.Consent.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&m.scope, "scope", "", "read only servers of this `SCOPE`: user, project, local (default: all)")
	f.StringSliceVar(&m.only, "only", nil, "import only the servers with these `NAMES`")
	f.StringVar(&m.secrets, "secrets", "", "what to do with secrets in plain text: env, keyring, keep (default: ask)")
	f.BoolVar(&m.overwrite, "overwrite", false, "change servers that differ in the configuration to what the host has")
	f.BoolVar(&m.references, "references", false, "take over ${cmd:...}, ${file:...} and ${keyring:...} of a FILE in the form of this configuration")
	f.BoolVar(&m.replace, "replace", false, "put mcp-metatool in place of the servers in the host's file")
	f.StringArrayVar(&m.variables, "env", nil, "with --replace: give mcp-metatool the variable `NAME[=VALUE]` (see connect)")
	f.BoolVar(&m.noVerify, "no-verify", false, "with --replace: do not start mcp-metatool as the host will")
	f.BoolVar(&m.asJSON, "json", false, "print the servers that were read, as JSON")
	cmd.MarkFlagsMutuallyExclusive("json", "replace")
	return cmd
}

// hostImport is a run of import.
type hostImport struct {
	cli.Settings
	cli.Consent
	scope, secrets     string
	only, variables    []string
	overwrite, replace bool
	noVerify, asJSON   bool
	references         bool

	sys      *clientconfig.System
	host     *clientconfig.Host // nil for a file
	listings []*clientconfig.Listing
	file     *edit.File
	planned  *config.Config // the configuration including the servers
	found    []*foundServer
}

// The states of a found server.
const (
	foundNew     = "new"
	foundSame    = "same"
	foundDiffers = "differs"
	foundSelf    = "mcp-metatool"
	foundHidden  = "hidden"
	foundUnfit   = "not imported"
	foundSkipped = "skipped"
)

// foundServer is a server of a host, in the output of --json.
type foundServer struct {
	Name        string                    `json:"name"`
	File        string                    `json:"file"`
	Scope       clientconfig.Scope        `json:"scope"`
	State       string                    `json:"state"`
	Transport   config.Transport          `json:"transport,omitempty"`
	Starts      string                    `json:"starts,omitempty"` // the command or the address, masked
	Differences []clientconfig.Difference `json:"differences,omitempty"`
	Secrets     []foundSecret             `json:"secrets,omitempty"`
	Notes       []string                  `json:"notes,omitempty"`

	server  *clientconfig.Server
	secrets []clientconfig.Secret
	// inVariables says that the configuration already has variables in place of the secrets.
	inVariables bool
	listing     *clientconfig.Listing
	// missing are the unset variables of the server. waits says that the configuration has the
	// server as disabled because of the variables in needs.
	missing, needs []string
	waits          bool
}

// foundSecret is a secret in plain text.
type foundSecret struct {
	Where    string `json:"where"`
	Variable string `json:"variable"`
}

// The choices for secrets in plain text.
const (
	secretsEnv     = "env"
	secretsKeyring = "keyring"
	secretsKeep    = "keep"
)

func (m *hostImport) run(ctx context.Context, cmd *cobra.Command, from string) error {
	if m.secrets != "" && !slices.Contains([]string{secretsEnv, secretsKeyring, secretsKeep}, m.secrets) {
		return cli.Usage(fmt.Errorf("--secrets %q: there are env, keyring and keep", m.secrets))
	}
	m.Consent.Begin(cmd)
	if err := m.read(ctx, from); err != nil {
		return cli.Usage(err)
	}
	if err := m.compare(ctx); err != nil {
		return cli.Usage(fmt.Errorf("import: %w (nothing was written)", err))
	}
	switch {
	case !m.asJSON:
		m.show(cmd.OutOrStdout())
	case m.Asker != nil && !m.Yes && !m.DryRun: // the subjects of the questions
		m.show(cmd.ErrOrStderr())
	}
	if err := m.decideReferences(ctx); err != nil {
		return err
	}
	if err := m.decideSecrets(ctx); err != nil {
		return err
	}
	if err := m.checkKeyring(ctx); err != nil {
		return err
	}
	if err := m.checkReplace(); err != nil {
		return cli.Usage(fmt.Errorf("import: %w (nothing was written)", err))
	}
	written, err := m.write(ctx)
	if err == nil && written {
		err = m.fillKeyring(ctx)
	}
	if err != nil {
		return err
	}
	if m.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"written": written, "servers": m.found})
	}
	switch {
	case written:
		m.summarize(cmd.OutOrStdout())
	case m.DryRun:
		m.explainUnset(cmd.OutOrStdout())
	}
	if m.replace && (written || m.DryRun) {
		return m.replaceInHost(ctx)
	}
	return nil
}

// read reads the files of the host, and the configuration.
func (m *hostImport) read(ctx context.Context, from string) (err error) {
	if m.sys, err = clientconfig.NewSystem(""); err != nil {
		return err
	}
	if m.host = clientconfig.Lookup(from); m.host != nil {
		err = m.readHost(ctx)
	} else {
		err = m.readFile(ctx, from)
	}
	if err != nil {
		return err
	}
	m.file, err = edit.Open(config.LoadOptions{Context: ctx, Flag: m.Config})
	return err
}

func (m *hostImport) readHost(ctx context.Context) error {
	if m.scope != "" && !slices.Contains(m.host.Scopes(m.sys), clientconfig.Scope(m.scope)) {
		return noScope(m.host, m.sys, m.scope)
	}
	var looked []string
	for _, f := range m.host.Files(m.sys) {
		if m.scope != "" && f.Scope != clientconfig.Scope(m.scope) {
			continue
		}
		l, err := clientconfig.Read(ctx, m.sys, f)
		if err != nil {
			return fmt.Errorf("import: %w (nothing was written)", err)
		}
		if l.Exists {
			m.listings = append(m.listings, l)
		} else if name := m.sys.Short(f.Path); !slices.Contains(looked, name) {
			looked = append(looked, name)
		}
	}
	if m.listings == nil {
		return fmt.Errorf("import: %s has no file with servers here (looked for %s)", m.host.Title, strings.Join(looked, ", "))
	}
	return nil
}

func (m *hostImport) readFile(ctx context.Context, path string) error {
	if m.replace || m.scope != "" {
		return errors.New("import: --replace and --scope are for hosts, not for files (there are " + strings.Join(hostNames(), ", ") + ")")
	}
	l, err := clientconfig.ReadFile(ctx, m.sys, path)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(path, `./\`) {
		return unknownHost(path)
	}
	if err != nil {
		return fmt.Errorf("import: %w (nothing was written)", err)
	}
	m.listings = append(m.listings, l)
	return nil
}

// imports reports whether a server is written into the configuration.
func (m *hostImport) imports(f *foundServer) bool {
	return f.State == foundNew || f.State == foundDiffers && m.overwrite
}

// write changes the configuration, and reports whether the configuration is now as wanted.
func (m *hostImport) write(ctx context.Context) (bool, error) {
	masker := &config.Masker{}
	for _, f := range m.found {
		if !m.imports(f) {
			continue
		}
		for _, secret := range f.secrets {
			masker.Add(secret.Value)
		}
		switch m.secrets {
		case secretsEnv:
			f.server.Replace(f.secrets, cli.VariableReference)
		case secretsKeyring:
			f.server.Replace(f.secrets, keyringReference)
		}
	}
	err := m.putServers()
	if err != nil {
		return false, cli.Usage(fmt.Errorf("import: %w (nothing was written)", err))
	}
	if err = m.disableUnset(ctx); err != nil {
		return false, fmt.Errorf("import: %w (nothing was written)", err)
	}
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: placeholder}
	if m.planned, err = m.file.Parse(opts); err != nil {
		return false, cli.Usage(fmt.Errorf("import: the configuration would not be valid, so nothing was written:\n%w", err))
	}
	own := m.file.Masker(config.LoadOptions{Context: ctx})
	m.Masked = func(text string) string { return own.Mask(masker.Mask(text)) }
	out := m.Cmd
	if m.asJSON { // standard output has the JSON only
		out = onStderr(m.Cmd)
	}
	return m.Consent.Apply(ctx, out, "Write this to "+m.sys.Short(m.file.Path())+"?", m.file.Change())
}

// placeholder gives every variable of the configuration a value, for a check before the variables
// are set.
func placeholder(name string) (string, bool) {
	if value, ok := os.LookupEnv(name); ok || strings.HasPrefix(name, "MCP_METATOOL_") {
		return value, ok
	}
	return "1", true
}

// hostNames returns the names of all hosts.
func hostNames() []string {
	var names []string
	for _, h := range clientconfig.Hosts() {
		names = append(names, h.Name)
	}
	return names
}

// findHost returns the host with a name.
func findHost(name string) (*clientconfig.Host, error) {
	if h := clientconfig.Lookup(name); h != nil {
		return h, nil
	}
	return nil, cli.Usage(unknownHost(name))
}

func unknownHost(name string) error {
	hint := "there are " + strings.Join(hostNames(), ", ")
	if near := nearest.Names(name, hostNames()); near != nil {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return fmt.Errorf("no host is called %q (%s)", name, hint)
}

func noScope(h *clientconfig.Host, s *clientconfig.System, scope string) error {
	var names []string
	for _, known := range h.Scopes(s) {
		names = append(names, string(known))
	}
	return fmt.Errorf("%s has no scope %q (it has %s)", h.Title, scope, strings.Join(names, ", "))
}

// completeHosts completes the names of hosts, and of files.
func completeHosts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return hostNames(), cobra.ShellCompDirectiveDefault
}

// starts describes a server on a line, without secrets.
func starts(s *clientconfig.Server) string {
	if s.Transport != config.Stdio {
		return clientconfig.Mask("url", s.URL)
	}
	words := append([]string{s.Command}, s.MaskedArgs()...)
	for i, w := range words {
		words[i] = clientconfig.Quote(w)
	}
	return cmp.Or(strings.Join(words, " "), "-")
}

// show prints the servers in the files.
func (m *hostImport) show(w io.Writer) {
	for i, l := range m.listings {
		if i > 0 {
			fmt.Fprintln(w)
		}
		m.showListing(w, l)
	}
}

func (m *hostImport) showListing(w io.Writer, l *clientconfig.Listing) {
	fmt.Fprintf(w, "%s (%s, scope %s): %s\n", display.EscapeLine(m.sys.Short(l.File.Path)), l.File.Host.Title, l.File.Scope, cli.Plural(len(l.Servers), "server"))
	for _, f := range m.found {
		if f.listing != l {
			continue
		}
		fmt.Fprintf(w, "  %-12s %s  %s\n", f.State, f.Name, display.EscapeLine(f.Starts))
		for _, d := range f.Differences {
			fmt.Fprintf(w, "    %s: %s here, %s there\n", display.EscapeLine(d.Setting), absent(d.Configured), absent(d.Listed))
		}
		for _, s := range f.Secrets {
			fmt.Fprintf(w, "    secret in plain text: %s\n", display.EscapeLine(s.Where))
		}
		if l.File.Host.Name == clientconfig.Metatool.Name {
			showFetches(w, f.server)
		}
		for _, n := range f.Notes {
			fmt.Fprintf(w, "    note: %s\n", display.EscapeLine(n))
		}
	}
}

func absent(value string) string {
	if value == "" {
		return "nothing"
	}
	return display.EscapeLine(value)
}

// summarize prints the imported servers, and the variables to set.
func (m *hostImport) summarize(w io.Writer) {
	states := map[string]int{}
	for _, f := range m.found {
		states[f.State]++
	}
	changed := 0
	if m.overwrite {
		changed = states[foundDiffers]
	}
	fmt.Fprintf(w, "imported: %d new, %d changed, %d same\n", states[foundNew], changed, states[foundSame])
	if left := states[foundDiffers] - changed; left > 0 {
		fmt.Fprintf(w, "%s kept as in the configuration (--overwrite takes the host's settings)\n", cli.Plural(left, "server"))
	}
	m.explainUnset(w)
	if m.secrets != secretsEnv {
		return
	}
	shown := map[string]bool{}
	for _, f := range m.found {
		if !m.imports(f) {
			continue
		}
		for _, s := range f.secrets {
			if shown[s.Variable] {
				continue
			}
			shown[s.Variable] = true
			state := "set it where mcp-metatool is started"
			if m.replace {
				state = "it moves to the entry of mcp-metatool; set it in a shell too if you use mcp-metatool there"
			} else if value, ok := os.LookupEnv(s.Variable); ok && value != s.Value {
				state = "it is set to something else here"
			} else if ok {
				state = "it is set here"
			}
			fmt.Fprintf(w, "variable %s: its value is in %s, %s, %s (%s)\n",
				s.Variable, display.EscapeLine(m.sys.Short(f.File)), f.Name, display.EscapeLine(s.Where), state)
		}
	}
}

// onStderr returns a command with the same input and all output on standard error.
func onStderr(cmd *cobra.Command) *cobra.Command {
	c := &cobra.Command{}
	c.SetIn(cmd.InOrStdin())
	c.SetErr(cmd.ErrOrStderr())
	c.SetOut(cmd.ErrOrStderr())
	return c
}

// hostFileChange returns the change of a host's file. A backup is kept.
func hostFileChange(l *clientconfig.Listing, after []byte) change.File {
	f := change.File{Path: l.File.Path, After: after, Backup: true}
	if l.Exists {
		f.Before = l.Data
	}
	if l.File.Shared {
		f.Perm = 0o644
	}
	return f
}

// commandLine returns words as a shell reads them.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = clientconfig.Quote(w)
	}
	return strings.Join(quoted, " ")
}

// comparison holds the state of the comparison of a host's servers with the configuration.
type comparison struct {
	home   string
	ours   map[string]*clientconfig.Server
	idents map[string]string // the name of a server in scripts, and the server with the name
	// seen has the names in the host's files, and given the corresponding names here.
	seen  map[string]bool
	given map[string]string
	// used are the names of variables and secrets in the configuration. taken are the values of the
	// variables of this environment, and chosen of the new variables.
	used          []string
	taken, chosen map[string]string
}

// compare determines the state of each server. The error is about the configuration.
func (m *hostImport) compare(ctx context.Context) error {
	ours, err := clientconfig.ReadMetatool(m.sys, m.file.Path(), m.file.Text())
	if err != nil {
		if _, problem := m.file.Parse(config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: placeholder}); problem != nil {
			return problem // the problem says more
		}
		return fmt.Errorf("%s: %w", m.file.Path(), err)
	}
	c := &comparison{
		home: m.sys.Home, ours: map[string]*clientconfig.Server{}, idents: map[string]string{},
		seen: map[string]bool{}, given: map[string]string{},
		used: clientconfig.References(string(m.file.Text())), taken: map[string]string{}, chosen: map[string]string{},
	}
	for i := range ours {
		c.ours[ours[i].Original] = &ours[i]
		c.idents[abi.Ident(ours[i].Original)] = ours[i].Original
	}
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			c.taken[name] = value
		}
	}
	for _, l := range slices.Backward(m.listings) { // a narrower scope takes precedence
		var found []*foundServer
		for i := range l.Servers {
			f := &foundServer{File: l.File.Path, Scope: l.File.Scope, listing: l, server: &l.Servers[i]}
			m.judge(f, c)
			found = append(found, f)
		}
		m.found = append(found, m.found...)
	}
	return nil
}

// judge determines the state of a server.
func (m *hostImport) judge(f *foundServer, c *comparison) {
	s := f.server
	f.Name, f.Transport, f.Notes, f.Starts = s.Name, s.Transport, s.Notes, starts(s)
	ident := abi.Ident(s.Name)
	unfit := func(reason string) { f.State, f.Notes = foundUnfit, append([]string{reason}, f.Notes...) }
	switch other, clash := c.idents[ident]; {
	case s.Self:
		f.State, f.Notes = foundSelf, nil
		return
	case m.only != nil && !slices.Contains(m.only, s.Original) && !slices.Contains(m.only, s.Name):
		f.State, f.Notes = foundSkipped, nil
		return
	case s.Problem != "":
		unfit(s.Problem)
		return
	case c.seen[s.Original]:
		f.State, f.Notes = foundHidden, []string{"a server of the same name in a narrower scope takes its place"}
		return
	case c.given[s.Name] != "": // in another file, under another name
		unfit(fmt.Sprintf("%q would have the same name here (rename one of them)", c.given[s.Name]))
		return
	case clash && other != s.Name:
		unfit(fmt.Sprintf("scripts could not tell it from %s (rename one of them)", other))
		return
	}
	c.seen[s.Original], c.given[s.Name], c.idents[ident] = true, s.Original, s.Name
	if problem := commandProblem(s); problem != "" {
		f.Notes = append(f.Notes, problem)
	}
	had := c.ours[s.Name]
	if had == nil {
		f.State = foundNew
		f.take(c, c.names(s, nil))
		return
	}
	f.waiting(had)
	f.State, f.Differences = foundSame, f.compare(c, had, s)
	if f.Differences == nil { // the secrets are in plain text in the configuration too
		return
	}
	names, matches := f.match(c, had)
	f.take(c, names)
	if !matches {
		f.State = foundDiffers
	}
}

// names returns the used variables with their values, for [clientconfig.Server.Secrets]. The value
// of a variable in the configuration is unknown. So s gets no variable of the configuration's
// servers, except the variables that s already has.
func (c *comparison) names(s *clientconfig.Server, except []string) map[string]string {
	names := maps.Clone(c.taken)
	maps.DeleteFunc(names, func(name, _ string) bool { return slices.Contains(except, name) || s.Owns(name) })
	maps.Copy(names, c.chosen)
	for _, name := range c.used {
		if !slices.Contains(except, name) {
			names[name] = "" // no secret is empty
		}
	}
	return names
}

// take finds the secrets of the server and the variables for them.
func (f *foundServer) take(c *comparison, names map[string]string) {
	f.secrets = f.server.Secrets(names)
	for _, secret := range f.secrets {
		f.Secrets = append(f.Secrets, foundSecret{secret.Where, secret.Variable})
		c.chosen[secret.Variable] = names[secret.Variable]
	}
}

// waiting finds out whether the configuration has the server as disabled because of missing
// variables.
func (f *foundServer) waiting(had *clientconfig.Server) {
	if !had.Disabled || f.server.Disabled {
		return
	}
	for _, name := range had.Needs() {
		if _, ok := os.LookupEnv(name); !ok {
			f.needs, f.waits = append(f.needs, name), true
		}
	}
}

// compare is clientconfig.Compare, but ignores the disabled state of a server with missing
// variables.
func (f *foundServer) compare(c *comparison, had, s *clientconfig.Server) []clientconfig.Difference {
	different := clientconfig.Compare(had, s, c.home)
	if f.waits {
		different = slices.DeleteFunc(different, func(d clientconfig.Difference) bool { return d.Setting == "disabled" })
	}
	if len(different) == 0 {
		return nil
	}
	return different
}

// match reports whether the configuration has the server with references in place of its secrets,
// and returns the used names for the other secrets; see names.
func (f *foundServer) match(c *comparison, had *clientconfig.Server) (names map[string]string, matches bool) {
	uses := had.Uses()
	names = c.names(f.server, uses)
	for range 2 {
		for i, reference := range []func(clientconfig.Secret) string{cli.VariableReference, keyringReference} {
			replaced, known := f.server.Clone(), maps.Clone(names)
			secrets := replaced.Secrets(known)
			replaced.Replace(secrets, reference)
			different := f.compare(c, had, replaced)
			if different == nil {
				f.Differences, f.inVariables = nil, i == 0
				return names, true
			}
			if len(different) < len(f.Differences) { // the configuration has the secrets as references
				f.Differences = different
			}
		}
		// The import may have happened while the first choice of a name was in use.
		for _, secret := range f.server.Clone().Secrets(maps.Clone(names)) {
			if !slices.Contains(uses, secret.Variable) {
				names[secret.Variable] = ""
			}
		}
	}
	elsewhere := slices.ContainsFunc(f.Differences, func(d clientconfig.Difference) bool {
		return slices.Contains([]string{"transport", "command", "args", "url"}, d.Setting)
	})
	if elsewhere { // the variables hold values for another program or address
		uses = nil
	}
	return c.names(f.server, uses), false
}

// commandProblem reports a missing program of a server.
func commandProblem(s *clientconfig.Server) string {
	if s.Transport != config.Stdio || strings.Contains(s.Command, "${") || strings.HasPrefix(s.Command, "~") {
		return ""
	}
	if _, err := exec.LookPath(s.Command); err == nil || errors.Is(err, exec.ErrDot) {
		return ""
	}
	if filepath.IsAbs(s.Command) {
		return fmt.Sprintf("there is no program %s", s.Command)
	}
	return fmt.Sprintf("there is no %s in PATH (install it)", s.Command)
}
