package servers

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func checkCommand() *cobra.Command {
	s := &cli.Settings{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print every setting, with secrets masked",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.LoadWith(config.LoadOptions{}) // every mistake counts
			if err != nil {
				return err
			}
			for _, file := range cfg.Searched {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: there is no %s\n", file)
			}
			for _, w := range cfg.Warnings() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", display.Text(w))
			}
			return cfg.Describe(cmd.OutOrStdout())
		},
	}
	s.AddFlags(cmd, slog.LevelWarn)
	return cmd
}
