package main

import (
	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

func runsExportCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Print the record of a run as it was written, for somebody who verifies it",
		Long: `Print the lines of a run, and of the saved tools that it called, byte for byte as they were
written, with their digests and signature: mcp-metatool verify checks such a file on another machine
with the public key (verify --print-key). Only the place of the run in the order of the journal
(link) is left out, since it is about other runs. RUN is an id or the beginning of one, or "last"
for the newest run.

The file has all data of the run, but for secrets, which were masked when it was recorded.`,
		Example: `  mcp-metatool runs export last > run.jsonl`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.export(cmd, args[0]) },
	}
	v.addFlags(cmd)
	_ = cmd.Flags().MarkHidden("json") // it is JSON
	cmd.ValidArgsFunction = choices(v.runs).complete(1)
	return cmd
}

func (v *runsView) export(cmd *cobra.Command, name string) error {
	defer v.release()
	runs, err := v.exported(cmd, name)
	if err != nil {
		return err
	}
	for _, r := range runs {
		for _, line := range r.Lines {
			v.stdout.Write(seal.WithoutLink(line)) // errors are those of Flush
			v.stdout.WriteByte('\n')
		}
	}
	return v.end()
}
