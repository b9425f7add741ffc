package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// unsetOf returns the variables without a value that each server of a configuration needs,
// unless it is disabled. parse is config.Parse or the method of edit.File.
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

// enableUnset asks whether servers are to be enabled although variables of theirs have no
// values here. Without somebody to ask they are not: they would not work here.
func (c *consent) enableUnset(ctx context.Context, servers, variables []string) (bool, error) {
	if c.asker == nil || c.yes || c.dryRun {
		return false, nil
	}
	return c.asker.confirm(ctx, fmt.Sprintf(
		"Not set here: %s. These servers work only where the variables are set. Enable %s all the same?",
		strings.Join(variables, ", "), strings.Join(servers, ", ")))
}

// disableUnset writes those of the imported servers as disabled that need variables which
// are set neither here nor, after --replace, in the host, unless the person wants otherwise.
func (m *hostImport) disableUnset(ctx context.Context) error {
	if err := m.enableWaiting(); err != nil {
		return err
	}
	unset, err := unsetOf(config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: m.getenvThere}, m.file.Parse)
	if err != nil {
		return nil // it is reported with the configuration
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
	enable, err := m.enableUnset(ctx, servers, slices.Compact(variables))
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

// enableWaiting enables servers that were imported before and are disabled because of
// variables that the host is given now.
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

// getenvThere returns the value of a variable where mcp-metatool will be started: here, or
// with --replace by the host, which is given those of its servers.
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
				return "1", true // only the host knows it
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

// showFetches prints what a server of a file fetches when it is started.
func showFetches(w io.Writer, s *clientconfig.Server) {
	for _, r := range s.Fetches() {
		what := map[config.ReferenceKind]string{
			config.FromCommand: "runs at each start", config.FromFile: "reads at each start", config.FromKeyring: "takes from your keyring",
		}[r.Kind]
		fmt.Fprintf(w, "    %s: %s\n", what, display.EscapeLine(r.Text))
	}
}

// decideReferences asks whether commands, files and secrets in the keyring that a file refers
// to are taken over. Whoever wrote the file may have another aim than the person who imports
// it.
func (m *hostImport) decideReferences(ctx context.Context) error {
	fetches := slices.ContainsFunc(m.found, func(f *foundServer) bool { return m.imports(f) && f.server.Fetches() != nil })
	switch {
	case !fetches || m.references || m.dryRun:
		return nil
	case m.asker == nil || m.yes:
		return &exitError{exitUsage, errors.New("import: nothing was written: servers run commands, or read files or your keyring, when they are started (see above; --references takes that over)")}
	}
	yes, err := m.asker.confirm(ctx, "Take over the commands, files and secrets of the keyring that servers fetch at each start?")
	if err == nil && !yes {
		err = &exitError{exitFailed, errors.New("import: nothing was written")}
	}
	return err
}
