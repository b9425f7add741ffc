package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// flowCommand works on the labels of servers. flow starts nothing, and needs no running server.
func flowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flow",
		Short: "List the servers and saved tools that have labels, and clear them",
		Args:  cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("flow: choose one of: flow labels, flow clear SERVER, flow trust TOOL"))
		},
	}
	cmd.AddCommand(flowLabelsCommand(), flowClearCommand(), flowTrustCommand())
	return cmd
}

// flowView holds the common parts of the verbs of flow.
type flowView struct {
	cli.Settings
	asJSON bool
}

// with calls f with the labels of servers in the store of the configuration.
func (v *flowView) with(ctx context.Context, f func(*host.ServerLabels) error) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	labels, err := host.OpenServerLabels(ctx, cfg, v.Logger(cfg))
	if err != nil {
		return err
	}
	return errors.Join(f(labels), labels.Close())
}

func flowLabelsCommand() *cobra.Command {
	v := &flowView{}
	cmd := &cobra.Command{
		Use:   "labels",
		Short: "List the servers that have labels since scripts gave them labelled answers",
		Long: `List the servers that have labels since scripts gave them what may depend on labelled answers
(docs/flow.md), and which labels. Those in the configuration are not listed.`,
		Example: "  mcp-metatool flow labels",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.with(cmd.Context(), func(l *host.ServerLabels) error {
				all, err := l.Read(cmd.Context())
				if err != nil {
					return err
				}
				if v.asJSON {
					names := map[string][]string{}
					for server, set := range all {
						names[server] = set.Names()
					}
					return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"servers": names})
				}
				if len(all) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "no server has labels")
					return nil
				}
				t := cli.NewTable(cmd.OutOrStdout())
				t.Head("SERVER", "LABELS")
				for _, server := range slices.Sorted(maps.Keys(all)) {
					t.Add(display.Text(server), all[server].String())
				}
				return t.Flush()
			})
		},
	}
	v.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	return cmd
}

func flowClearCommand() *cobra.Command {
	v := &flowView{}
	cmd := &cobra.Command{
		Use:     "clear SERVER",
		Short:   "Clear the labels of a server",
		Long:    "Clear the labels that a server has got from scripts. Do it when you know that it keeps nothing\nof what it was given, or that this is no secret.",
		Example: "  mcp-metatool flow clear notes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.with(cmd.Context(), func(l *host.ServerLabels) error {
				had, err := l.Remove(cmd.Context(), args[0])
				if err == nil && !had {
					return cli.Failed(fmt.Errorf("flow: server %q has no labels from scripts (mcp-metatool flow labels lists them)", args[0]))
				}
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s has no labels from scripts any more\n", display.Text(args[0]))
				}
				return err
			})
		},
	}
	v.AddFlags(cmd, slog.LevelWarn)
	return cmd
}

func flowTrustCommand() *cobra.Command {
	v := &flowView{}
	owner := ""
	cmd := &cobra.Command{
		Use:   "trust TOOL",
		Short: "Clear the labels of a saved tool, when you have read its script",
		Long: `Clear the labels of a saved tool. It has those of the session that has saved it, since what that
session was given can be the reason for what the script does: an injected text may have made an
agent write it. Read the script first (mcp-metatool tools show TOOL).`,
		Example: "  mcp-metatool tools show report\n  mcp-metatool flow trust report",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := v.Load()
			if err != nil {
				return err
			}
			token, err := cli.OwnerOf(cfg, owner)
			if err != nil {
				return cli.Usage(fmt.Errorf("flow: %w", err))
			}
			saved, err := host.OpenTools(cmd.Context(), cfg, token, v.Logger(cfg))
			if err != nil {
				return err
			}
			return errors.Join(trust(cmd, saved, args[0]), saved.Close())
		},
	}
	v.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().StringVar(&owner, "token", "", "a saved tool of the clients with the token `NAME`, which have their own")
	cli.CompleteFlag(cmd, "token", v.Tokens)
	return cmd
}

func trust(cmd *cobra.Command, saved *host.CommandTools, name string) error {
	if saved.Stale != nil {
		return fmt.Errorf("flow: the store of the fleet does not answer: %w", saved.Stale)
	}
	def, err := saved.Get(name)
	switch {
	case err != nil:
		return cli.Failed(fmt.Errorf("flow: saved tool %q: %w", name, err))
	case len(def.Labels) == 0:
		return cli.Failed(fmt.Errorf("flow: saved tool %q has no labels", name))
	}
	def.Labels = nil
	if _, _, err := saved.Save(def); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s has no labels any more\n", display.Text(name))
	return nil
}
