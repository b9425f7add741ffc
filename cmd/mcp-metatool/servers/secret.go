package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets for the configuration in the keyring of the system",
		Long: `Keep secrets for the configuration in the keyring of the system: the keychain of
macOS, the credential manager of Windows, or the Secret Service of a Linux desktop.
The configuration refers to them as ${keyring:NAME}, and they are fetched when a
server that needs them is started.`,
		Args: cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("secret: choose one of: secret set NAME, secret list, secret remove NAME"))
		},
	}
	cmd.AddCommand(secretSetCommand(), secretListCommand(), secretRemoveCommand())
	return cmd
}

func secretSetCommand() *cobra.Command {
	s := &cli.Settings{}
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Add a secret to the keyring, or replace it",
		Long: `Add a secret to the keyring, or replace it. Its value is asked for without showing
it, or read from standard input if that is not a terminal; a line break at its end is
no part of it. Servers that run keep the old value until they are restarted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if !config.SecretName.MatchString(name) {
				return cli.Usage(fmt.Errorf("%q: %w", name, config.ErrSecretName))
			}
			value, err := askSecret(cmd, name)
			if err != nil {
				return err
			}
			if err := secret.Set(cmd.Context(), name, value); err != nil {
				return fmt.Errorf("secret %s: %w", name, err)
			}
			if err := s.SecretNames().Add(cmd.Context(), name); err != nil {
				return fmt.Errorf("secret %s is in the keyring, but secret list will not know it: %w", name, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is in the keyring; the configuration refers to it as ${keyring:%s}\n", name, name)
			return err
		},
	}
	s.AddFlags(cmd, cli.Silent)
	return cmd
}

// maxSecret is the size limit of a secret from standard input, in bytes.
const maxSecret = 64 << 10

// askSecret reads a secret from a stream, or from a terminal without showing the secret.
func askSecret(cmd *cobra.Command, name string) (string, error) {
	if a := cli.FindAsker(cmd); a != nil {
		value, err := a.Secret(cmd.Context(), fmt.Sprintf("Value of %s (not shown): ", name))
		if errors.Is(err, io.EOF) {
			return "", errors.New("no value was given")
		}
		return value, err
	}
	data, err := regular.ReadAll(cmd.Context(), cmd.InOrStdin(), maxSecret)
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// States of a secret in secret list.
const (
	stateSet     = "set"
	stateMissing = "missing"
)

// secretReport is a secret in the output of secret list --json.
type secretReport struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`   // stateSet, stateMissing, or why the state is unknown
	Servers []string `json:"servers"` // with a reference to the secret
}

func secretListCommand() *cobra.Command {
	s := &cli.Settings{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the names of the secrets in the keyring, and who needs them",
		Long: `List the names of the secrets that were added to the keyring, and of those that the
configuration refers to, with the servers that need them. Values are not shown. If the
keyring cannot be used, the state says why. The exit code is 1 if a server needs a
secret that is not there or cannot be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.Load()
			if err != nil {
				return err
			}
			secrets, err := listSecrets(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return printSecrets(cmd.OutOrStdout(), secrets, asJSON)
		},
	}
	s.AddFlags(cmd, cli.Silent)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listSecrets returns the known and the needed secrets of the keyring.
func listSecrets(ctx context.Context, cfg *config.Config) ([]secretReport, error) {
	names, err := secret.NamesIn(cfg.Store.Dir).List(ctx)
	if err != nil {
		return nil, err
	}
	references, users := cfg.References()
	for _, r := range references {
		if r.Kind == config.FromKeyring {
			names = append(names, r.Text)
		}
	}
	slices.Sort(names)
	list := []secretReport{}
	for _, name := range slices.Compact(names) {
		state := stateSet
		switch _, err := secret.Get(ctx, name); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, secret.ErrNotFound):
			state = stateMissing
		case err != nil:
			state = err.Error()
		}
		servers := users[config.Reference{Kind: config.FromKeyring, Text: name}]
		list = append(list, secretReport{name, state, append([]string{}, servers...)})
	}
	return list, nil
}

func printSecrets(w io.Writer, secrets []secretReport, asJSON bool) error {
	if asJSON {
		if err := cli.WriteJSON(w, secrets); err != nil {
			return err
		}
	} else if len(secrets) == 0 {
		if _, err := fmt.Fprintln(w, "no secrets (add one: mcp-metatool secret set NAME)"); err != nil {
			return err
		}
	} else {
		t := cli.NewTable(w)
		t.Head("NAME", "STATE", "NEEDED BY")
		for _, s := range secrets {
			t.Add(s.Name, s.State, strings.Join(s.Servers, ", "))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, s := range secrets {
		switch {
		case s.State == stateSet || len(s.Servers) == 0:
		case s.State == stateMissing:
			return cli.Failed(fmt.Errorf("secret %s is missing (add it: mcp-metatool secret set %s)", s.Name, s.Name))
		default:
			return cli.Failed(fmt.Errorf("secret %s, which a server needs, cannot be read", s.Name))
		}
	}
	return nil
}

func secretRemoveCommand() *cobra.Command {
	s := &cli.Settings{}
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a secret from the keyring",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, names := args[0], s.SecretNames()
			err := secret.Remove(cmd.Context(), name)
			if err == nil || errors.Is(err, secret.ErrNotFound) {
				err = errors.Join(err, names.Remove(cmd.Context(), name))
			}
			if errors.Is(err, secret.ErrNotFound) {
				known, _ := names.List(cmd.Context())
				if near := nearest.Names(name, known); near != nil {
					err = fmt.Errorf("%w (did you mean %s?)", err, strings.Join(near, ", "))
				}
			}
			if err != nil {
				return fmt.Errorf("secret %s: %w", name, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is no longer in the keyring\n", name)
			return err
		},
	}
	s.AddFlags(cmd, cli.Silent)
	return cmd
}
