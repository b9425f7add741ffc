package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/secret"
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
		a.replaceVariable(name, "${keyring:"+name+"}")
	}
	a.kept = names
	a.unset = slices.DeleteFunc(a.unset, func(name string) bool { return slices.Contains(names, name) })
	a.server.Disabled = a.disabled || len(a.unset) > 0
	return nil
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
	for _, name := range a.kept {
		err := secret.Set(ctx, name, a.given[name])
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
