package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
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
	m.settings.addFlags(cmd, silent)
	m.consent.addFlags(cmd)
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

// hostImport is one run of import.
type hostImport struct {
	settings
	consent
	scope, secrets     string
	only, variables    []string
	overwrite, replace bool
	noVerify, asJSON   bool
	references         bool

	sys      *clientconfig.System
	host     *clientconfig.Host // nil for a file
	listings []*clientconfig.Listing
	file     *edit.File
	planned  *config.Config // the configuration with the servers in it
	found    []*foundServer
}

// The states of a server that is found.
const (
	foundNew     = "new"
	foundSame    = "same"
	foundDiffers = "differs"
	foundSelf    = "mcp-metatool"
	foundHidden  = "hidden"
	foundUnfit   = "not imported"
	foundSkipped = "skipped"
)

// foundServer is a server of a host, as it is in the output of --json.
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
	// inVariables says that the configuration has variables in place of the secrets
	// already.
	inVariables bool
	listing     *clientconfig.Listing
	// missing are variables that it needs and that are not set. waits says that the
	// configuration has it as disabled because of such variables, needs.
	missing, needs []string
	waits          bool
}

// foundSecret is a secret in plain text.
type foundSecret struct {
	Where    string `json:"where"`
	Variable string `json:"variable"`
}

// What happens to secrets in plain text.
const (
	secretsEnv     = "env"
	secretsKeyring = "keyring"
	secretsKeep    = "keep"
)

func (m *hostImport) run(ctx context.Context, cmd *cobra.Command, from string) error {
	if m.secrets != "" && !slices.Contains([]string{secretsEnv, secretsKeyring, secretsKeep}, m.secrets) {
		return &exitError{exitUsage, fmt.Errorf("--secrets %q: there are env, keyring and keep", m.secrets)}
	}
	m.consent.begin(cmd)
	if err := m.read(ctx, from); err != nil {
		return &exitError{exitUsage, err}
	}
	if err := m.compare(ctx); err != nil {
		return &exitError{exitUsage, fmt.Errorf("import: %w (nothing was written)", err)}
	}
	switch {
	case !m.asJSON:
		m.show(cmd.OutOrStdout())
	case m.asker != nil && !m.yes && !m.dryRun: // what the questions are about
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
		return &exitError{exitUsage, fmt.Errorf("import: %w (nothing was written)", err)}
	}
	written, err := m.write(ctx)
	if err == nil && written {
		err = m.fillKeyring(ctx)
	}
	if err != nil {
		return err
	}
	if m.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"written": written, "servers": m.found})
	}
	switch {
	case written:
		m.summarize(cmd.OutOrStdout())
	case m.dryRun:
		m.explainUnset(cmd.OutOrStdout())
	}
	if m.replace && (written || m.dryRun) {
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
	m.file, err = edit.Open(config.LoadOptions{Context: ctx, Flag: m.config})
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

// write changes the configuration. It reports whether that is as it should be now.
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
			f.server.Replace(f.secrets, variableReference)
		case secretsKeyring:
			f.server.Replace(f.secrets, keyringReference)
		}
	}
	err := m.putServers()
	if err != nil {
		return false, &exitError{exitUsage, fmt.Errorf("import: %w (nothing was written)", err)}
	}
	if err = m.disableUnset(ctx); err != nil {
		return false, fmt.Errorf("import: %w (nothing was written)", err)
	}
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: placeholder}
	if m.planned, err = m.file.Parse(opts); err != nil {
		return false, &exitError{exitUsage, fmt.Errorf("import: the configuration would not be valid, so nothing was written:\n%w", err)}
	}
	own := m.file.Masker(config.LoadOptions{Context: ctx})
	m.masked = func(text string) string { return own.Mask(masker.Mask(text)) }
	out := m.cmd
	if m.asJSON { // standard output has the JSON only
		out = onStderr(m.cmd)
	}
	return m.consent.apply(ctx, out, "Write this to "+m.sys.Short(m.file.Path())+"?", m.file.Change())
}

// placeholder gives every variable of the configuration a value, so that it can be checked
// before they are set.
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
	return nil, &exitError{exitUsage, unknownHost(name)}
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

// starts returns what a server is, on one line, without secrets.
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
