package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3".
var version string

// currentVersion returns the version of this build, "(devel)" if it has none.
func currentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func versionText() string {
	return fmt.Sprintf("mcp-metatool %s %s %s/%s\n", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// addVersion adds --version to the root command. That of cobra would link text/template, and
// with it every method of the program (see timeline.Markup).
func addVersion(root *cobra.Command) {
	version := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*version {
			return run(cmd, args)
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
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
			text := versionText()
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
