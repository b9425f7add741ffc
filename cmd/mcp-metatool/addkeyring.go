package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// chooseKeyring makes secrets that are known in this run, but not in the environment, ones of
// the system's keyring, if a flag or the person wants that. They are kept once the
// configuration is written.
func (a *addition) chooseKeyring(ctx context.Context) error {
	var names []string
	for _, name := range a.unset {
		if _, ok := a.given[name]; ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if !a.keyring && a.interactive {
		var err error
		a.keyring, err = a.asker.confirm(ctx, fmt.Sprintf("Keep %s in the keyring of this system?", strings.Join(names, ", ")))
		if err != nil {
			return err
		}
	}
	if !a.keyring {
		return nil
	}
	for _, name := range names {
		as, err := a.keyringName(ctx, name)
		if err != nil {
			return err
		}
		a.replaceVariable(name, "${keyring:"+as+"}")
		a.kept = append(a.kept, keptSecret{as, a.given[name]})
	}
	a.unset = slices.DeleteFunc(a.unset, func(name string) bool { return slices.Contains(names, name) })
	a.server.Disabled = a.disabled || len(a.unset) > 0
	return nil
}

// chooseEnabled asks whether a server with variables that are not set is to be enabled.
func (a *addition) chooseEnabled(ctx context.Context) error {
	if len(a.unset) == 0 || a.disabled {
		return nil
	}
	enabled, err := a.enableUnset(ctx, []string{a.name}, a.unset)
	a.server.Disabled = !enabled
	return err
}

// keptSecret is a secret that goes into the keyring.
type keptSecret struct{ name, value string }

// keyringName returns a name for a secret in the keyring: that of its variable, or one with
// the name of the server, and a number, if the keyring has another secret there.
func (a *addition) keyringName(ctx context.Context, variable string) (string, error) {
	if a.dryRun {
		return variable, nil // the keyring may have to be unlocked
	}
	base := variable
	if prefix := clientconfig.VariableName(a.name) + "_"; !strings.HasPrefix(variable, prefix) {
		base = prefix + variable
	}
	for n, name := 2, variable; ; {
		other, err := keyringHasOther(ctx, name, a.given[variable])
		if err != nil {
			return "", fmt.Errorf("add: %w (nothing was written; without --keyring no keyring is needed)", err)
		}
		chosen := slices.ContainsFunc(a.kept, func(k keptSecret) bool { return k.name == name })
		switch {
		case !other && !chosen:
			return name, nil
		case name == variable && base != variable:
			name = base
		default:
			name = fmt.Sprintf("%s_%d", base, n)
			n++
		}
	}
}

// replaceVariable puts a reference in place of a variable in all texts of the server.
func (a *addition) replaceVariable(name, reference string) {
	s := &a.server
	texts := []*string{&s.Command, &s.URL, &s.Dir}
	for i := range s.Args {
		texts = append(texts, &s.Args[i])
	}
	for i := range s.Env {
		texts = append(texts, &s.Env[i].Value)
	}
	for i := range s.Headers {
		texts = append(texts, &s.Headers[i].Value)
	}
	for _, text := range texts {
		*text = replaceVariable(*text, "${"+name+"}", reference)
	}
}

// replaceVariable replaces a variable in a text of the configuration, unless it is escaped.
func replaceVariable(text, variable, reference string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, variable)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case strings.HasSuffix(before, "$"):
			b.WriteString(variable)
		default:
			b.WriteString(reference)
		}
		text = after
	}
}

// keep puts the secrets into the keyring.
func (a *addition) keep(ctx context.Context) error {
	for _, kept := range a.kept {
		name := kept.name
		err := secret.Set(ctx, name, kept.value)
		if err == nil {
			err = a.secretNames().Add(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("%s is added, but %s is not in the keyring: %w (try: mcp-metatool secret set %s)", a.name, name, err, name)
		}
		fmt.Fprintf(a.cmd.OutOrStdout(), "%s is in the keyring\n", name)
	}
	return nil
}
