package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// variableReference and keyringReference are what the configuration has in place of a
// secret.
func variableReference(s clientconfig.Secret) string { return "${" + s.Variable + "}" }
func keyringReference(s clientconfig.Secret) string  { return "${keyring:" + s.Variable + "}" }

// decideSecrets asks what happens to secrets in plain text, unless a flag says so.
func (m *hostImport) decideSecrets(ctx context.Context) error {
	plain := slices.ContainsFunc(m.found, func(f *foundServer) bool { return m.imports(f) && f.secrets != nil })
	switch {
	case !plain || m.secrets != "":
	case m.dryRun:
		m.secrets = secretsEnv
	case m.asker == nil:
		return &exitError{exitUsage, errors.New("import: nothing was written: there are secrets in plain text (give --secrets env to have variables in their place, --secrets keyring to put them into your keyring, or --secrets keep to copy them)")}
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
		yes, err := m.asker.confirm(ctx, choice.question)
		if err != nil {
			return err
		}
		if yes {
			m.secrets = choice.secrets
			return nil
		}
	}
	return &exitError{exitFailed, errors.New("import: nothing was written")}
}

// keyringSecrets returns the secrets that go into the keyring, each once.
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

// checkKeyring returns an error if the secrets cannot go into the keyring: there is none, or
// it has others under their names.
func (m *hostImport) checkKeyring(ctx context.Context) error {
	if m.dryRun {
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
	names := secret.NamesIn(config.StoreDir(config.LoadOptions{Context: ctx, Flag: m.config}))
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
