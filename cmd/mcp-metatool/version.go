package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/startup"
)

// currentVersion returns the version of this build.
func currentVersion() string { return startup.Version() }

// addVersion adds --version to the root command; without other arguments, package startup has
// printed the version already. That of cobra would link text/template, and
// with it every method of the program (see timeline.Markup).
func addVersion(root *cobra.Command) {
	version := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*version {
			return run(cmd, args)
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), startup.VersionText())
		return err
	}
}

func versionCommand() *cobra.Command {
	guest := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := startup.VersionText()
			if guest {
				text = sandbox.GuestDigest() + "\n"
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&guest, "guest", false, "print only the SHA-256 digest of the guest that runs scripts, which verify compares")
	return cmd
}
