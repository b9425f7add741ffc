package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// checkReplace returns an error if a file of the host could not be changed, before the first file
// is changed.
func (m *hostImport) checkReplace() error {
	if !m.replace {
		return nil
	}
	for _, l := range m.listings {
		out := m.replaced(l)
		if len(out) == 0 || m.stays(l) {
			continue
		}
		if err := l.File.CheckWrite(m.sys); err != nil {
			return err
		}
		if _, err := without(l, out); err != nil {
			return err
		}
	}
	return nil
}

// stays reports whether a file stays unchanged because other programs use the file too.
func (m *hostImport) stays(l *clientconfig.Listing) bool {
	return l.File.Shared && m.scope != string(l.File.Scope)
}

// replaceInHost puts mcp-metatool in place of the imported servers, in each file of the host. Only
// the first place gets an entry: the host uses the entry wherever the other places count. The entry
// has the variables of the servers of all places.
func (m *hostImport) replaceInHost(ctx context.Context) error {
	placed := false
	for _, l := range m.listings {
		out := m.replaced(l)
		if len(out) == 0 {
			continue
		}
		if m.stays(l) {
			fmt.Fprintf(m.Cmd.OutOrStdout(), "%s stays as it is, because others may use it too (--scope %s changes it)\n",
				display.EscapeLine(m.sys.Short(l.File.Path)), l.File.Scope)
			continue
		}
		if err := m.replaceInFile(ctx, l, out, placed); err != nil {
			return err
		}
		placed = true
	}
	return nil
}

// replaced returns the servers of a file that are in the configuration now.
func (m *hostImport) replaced(l *clientconfig.Listing) []*foundServer {
	return slices.DeleteFunc(slices.Clone(m.found), func(f *foundServer) bool {
		return f.listing != l || !m.imports(f) && f.State != foundSame
	})
}

// without returns the text of a file without the given servers.
func without(l *clientconfig.Listing, out []*foundServer) (text []byte, err error) {
	text = l.Data
	for _, f := range out {
		if text, _, err = l.File.Remove(text, f.server.Original); err != nil {
			return nil, fmt.Errorf("%s: %w", l.File.Path, err)
		}
	}
	return text, nil
}

// replaceInFile takes servers out of a file and, unless another file has mcp-metatool already, puts
// mcp-metatool in.
func (m *hostImport) replaceInFile(ctx context.Context, l *clientconfig.Listing, out []*foundServer, placed bool) error {
	l, err := clientconfig.Read(ctx, m.sys, l.File) // anew: two places can be in one file
	var text []byte
	if err == nil {
		err = l.File.CheckWrite(m.sys)
	}
	if err == nil {
		text, err = without(l, out)
	}
	if err != nil {
		return cli.Usage(fmt.Errorf("import: %w (%s)", err, m.Unwritten()))
	}
	if placed {
		m.Masked = hostMasker(l).Mask
		question := fmt.Sprintf("Take %s out of %s?", cli.Plural(len(out), "server"), m.sys.Short(l.File.Path))
		_, err := m.Consent.Apply(ctx, m.Cmd, question, hostFileChange(l, text))
		return err
	}
	c := &connection{
		sys: m.sys, host: m.host, file: l.File, listing: l, config: m.file.Path(), planned: m.planned,
		cmd: m.Cmd, Consent: m.Consent, noVerify: m.noVerify || m.DryRun, variables: m.variables,
	}
	m.give(c)
	if err := c.prepare(); err != nil {
		return err
	}
	err = c.write(ctx, text, fmt.Sprintf("Put mcp-metatool in place of %s in %s?", cli.Plural(len(out), "server"), m.sys.Short(l.File.Path)))
	m.Wrote = c.Wrote
	return err
}

// give gives the entry of mcp-metatool the variables of the servers in all files of the host.
func (m *hostImport) give(c *connection) {
	for _, l := range m.listings {
		for _, f := range m.replaced(l) {
			if m.secrets == secretsEnv && m.imports(f) || f.inVariables { // the host's files had the values already, so the values may stay
				for _, s := range f.secrets {
					c.env = append(c.env, clientconfig.Setting{Name: s.Variable, Value: s.Value})
				}
			}
			for _, r := range f.server.References {
				if !slices.Contains(c.references, r) {
					c.references = append(c.references, r)
				}
			}
		}
	}
}

func keyringReference(s clientconfig.Secret) string { return "${keyring:" + s.Variable + "}" }

// decideSecrets asks how to treat secrets in plain text, unless a flag decides.
func (m *hostImport) decideSecrets(ctx context.Context) error {
	plain := slices.ContainsFunc(m.found, func(f *foundServer) bool { return m.imports(f) && f.secrets != nil })
	switch {
	case !plain || m.secrets != "":
	case m.DryRun:
		m.secrets = secretsEnv
	case m.Asker == nil:
		return cli.Usage(errors.New("import: nothing was written: there are secrets in plain text (give --secrets env to have variables in their place, --secrets keyring to put them into your keyring, or --secrets keep to copy them)"))
	default:
		return m.askSecrets(ctx)
	}
	return nil
}

// askSecrets asks the person. Without a yes, no secret is copied.
func (m *hostImport) askSecrets(ctx context.Context) error {
	for _, choice := range []struct{ secrets, question string }{
		{secretsEnv, "Put environment variables in place of the secrets in plain text?"},
		{secretsKeep, "Copy them into the configuration as they are?"},
	} {
		yes, err := m.Asker.Confirm(ctx, choice.question)
		if err != nil {
			return err
		}
		if yes {
			m.secrets = choice.secrets
			return nil
		}
	}
	return cli.Failed(errors.New("import: nothing was written"))
}

// keyringSecrets returns the secrets for the keyring, each once.
func (m *hostImport) keyringSecrets() []clientconfig.Secret {
	if m.secrets != secretsKeyring {
		return nil
	}
	var list []clientconfig.Secret
	for _, f := range m.found {
		for _, s := range f.secrets {
			known := slices.ContainsFunc(list, func(other clientconfig.Secret) bool { return other.Variable == s.Variable })
			if m.imports(f) && !known {
				list = append(list, s)
			}
		}
	}
	return list
}

// checkKeyring returns an error if the keyring is missing, or has other secrets under the names.
func (m *hostImport) checkKeyring(ctx context.Context) error {
	if m.DryRun {
		return nil
	}
	for _, s := range m.keyringSecrets() {
		other, err := keyringHasOther(ctx, s.Variable, s.Value)
		switch {
		case err != nil:
			return fmt.Errorf("import: %w (nothing was written; --secrets env needs no keyring)", err)
		case other:
			return fmt.Errorf("import: the keyring has another secret called %s: nothing was written (remove it: mcp-metatool secret remove %s; or give --secrets env)",
				s.Variable, s.Variable)
		}
	}
	return nil
}

// keyringHasOther reports whether the keyring has another value under a name.
func keyringHasOther(ctx context.Context, name, value string) (bool, error) {
	had, err := secret.Get(ctx, name)
	if errors.Is(err, secret.ErrNotFound) {
		return false, nil
	}
	return err == nil && had != value, err
}

// fillKeyring puts the secrets into the keyring. The configuration refers to them already.
func (m *hostImport) fillKeyring(ctx context.Context) error {
	names := secret.NamesIn(config.StoreDir(config.LoadOptions{Context: ctx, Flag: m.Config}))
	var failed error
	for _, s := range m.keyringSecrets() {
		err := secret.Set(ctx, s.Variable, s.Value)
		if err == nil {
			err = names.Add(ctx, s.Variable)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("import: secret %s: %w (add it: mcp-metatool secret set %s)", s.Variable, err, s.Variable))
		}
	}
	return failed
}

// unsetOf returns the variables without a value that each enabled server of a configuration needs.
// parse is config.Parse or the method of edit.File.
func unsetOf(opts config.LoadOptions, parse func(config.LoadOptions) (*config.Config, error)) (map[string][]string, error) {
	unset := map[string][]string{}
	opts.Unset = func(server string, p *config.Problem) {
		missing := new(config.UnsetError)
		if errors.As(p.Err, &missing) && !slices.Contains(unset[server], missing.Var) {
			unset[server] = append(unset[server], missing.Var)
		}
	}
	_, err := parse(opts)
	return unset, err
}

// enableUnset asks whether to enable servers although their variables have no values here. Without
// a person to ask, the servers stay disabled: the servers would not work here.
func enableUnset(ctx context.Context, c *cli.Consent, servers, variables []string) (bool, error) {
	if c.Asker == nil || c.Yes || c.DryRun {
		return false, nil
	}
	return c.Asker.Confirm(ctx, fmt.Sprintf(
		"Not set here: %s. These servers work only where the variables are set. Enable %s all the same?",
		strings.Join(variables, ", "), strings.Join(servers, ", ")))
}

// disableUnset writes imported servers as disabled if they need variables that are set neither here
// nor, after --replace, in the host, unless the person decides otherwise.
func (m *hostImport) disableUnset(ctx context.Context) error {
	if err := m.enableWaiting(); err != nil {
		return err
	}
	unset, err := unsetOf(config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: m.getenvThere}, m.file.Parse)
	if err != nil {
		return nil // the check of the configuration reports the error
	}
	var servers, variables []string
	for _, f := range m.found {
		if m.imports(f) && unset[f.Name] != nil {
			f.missing = unset[f.Name]
			servers, variables = append(servers, f.Name), append(variables, f.missing...)
		}
	}
	if servers == nil {
		return nil
	}
	slices.Sort(variables)
	enable, err := enableUnset(ctx, &m.Consent, servers, slices.Compact(variables))
	if err != nil || enable {
		return err
	}
	m.file.Reset() // so that each key is written at its place
	for _, f := range m.found {
		f.server.Disabled = f.server.Disabled || f.missing != nil
	}
	if err := m.putServers(); err != nil {
		return err
	}
	return m.enableWaiting()
}

// putServers writes the imported servers into the text of the configuration.
func (m *hostImport) putServers() error {
	for _, f := range m.found {
		if m.imports(f) {
			if err := f.server.Write(m.file); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableWaiting enables servers of an earlier import that are disabled because of variables that
// the host now gets.
func (m *hostImport) enableWaiting() error {
	for _, f := range m.found {
		if !m.replace || !f.waits || f.State != foundSame {
			continue
		}
		given := !slices.ContainsFunc(f.needs, func(name string) bool { _, ok := m.getenvThere(name); return !ok })
		if given {
			if err := m.file.Unset(f.Name, "disabled"); err != nil {
				return err
			}
		}
	}
	return nil
}

// getenvThere returns the value of a variable where mcp-metatool will be started: here, or with
// --replace by the host, which gets the variables of its servers.
func (m *hostImport) getenvThere(name string) (string, bool) {
	if value, ok := os.LookupEnv(name); ok || !m.replace {
		return value, ok
	}
	for _, f := range m.found {
		for _, s := range f.secrets {
			if s.Variable == name {
				return s.Value, true
			}
		}
		for _, r := range f.server.References {
			if r.Name == name {
				return "1", true // only the host knows the value
			}
		}
	}
	for _, v := range m.variables { // of --env
		if given, _, ok := strings.Cut(v, "="); ok && given == name {
			return "1", true
		}
	}
	return "", false
}

// explainUnset says which servers are disabled because of variables.
func (m *hostImport) explainUnset(w io.Writer) {
	for _, f := range m.found {
		if f.missing == nil {
			continue
		}
		state := "is enabled, and needs"
		if f.server.Disabled {
			state = "is disabled, because it needs"
		}
		fmt.Fprintf(w, "%s %s variables that are not set here: %s\n", f.Name, state, strings.Join(f.missing, ", "))
		if f.server.Disabled {
			fmt.Fprintf(w, "  Set them where mcp-metatool is started. Then: mcp-metatool enable %s\n", f.Name)
		}
	}
}

// showFetches prints the downloads of a server at its start.
func showFetches(w io.Writer, s *clientconfig.Server) {
	for _, r := range s.Fetches() {
		what := map[config.ReferenceKind]string{
			config.FromCommand: "runs at each start", config.FromFile: "reads at each start", config.FromKeyring: "takes from your keyring",
		}[r.Kind]
		fmt.Fprintf(w, "    %s: %s\n", what, display.EscapeLine(r.Text))
	}
}

// decideReferences asks whether to take over the commands, files and keyring secrets in the
// references of a file. The author of the file may have another aim than the person who imports the
// file.
func (m *hostImport) decideReferences(ctx context.Context) error {
	fetches := slices.ContainsFunc(m.found, func(f *foundServer) bool { return m.imports(f) && f.server.Fetches() != nil })
	switch {
	case !fetches || m.references || m.DryRun:
		return nil
	case m.Asker == nil || m.Yes:
		return cli.Usage(errors.New("import: nothing was written: servers run commands, or read files or your keyring, when they are started (see above; --references takes that over)"))
	}
	yes, err := m.Asker.Confirm(ctx, "Take over the commands, files and secrets of the keyring that servers fetch at each start?")
	if err == nil && !yes {
		err = cli.Failed(errors.New("import: nothing was written"))
	}
	return err
}
