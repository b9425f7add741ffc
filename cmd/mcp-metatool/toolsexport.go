package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
)

// conventions is the part of the help of export and import about files beside tools.
const conventions = `The smoke tests of a tool (see mcp-metatool smoke) are in the store's directory as
smoke/NAME.toml, its cassettes as smoke/NAME.cassette.toml or
smoke/NAME.ANYTHING.cassette.toml, and its locks in the same way as *.lock.toml.
They are exported and imported with the tool.`

func exportCommand() *cobra.Command {
	v := &storeView{}
	var to string
	cmd := v.command("export [NAME...]", "Write saved tools, with their smoke tests and cassettes, for reviews and other machines",
		cobra.ArbitraryArgs, func(v *storeView, args []string) error { return v.export(args, to) })
	cmd.Long = `Write saved tools, all or those named, for review and for import elsewhere: to
standard output, or with --out to a file or a directory. The format is TOML, with
scripts as they are and schemas as JSON. In a directory, each tool is NAME.toml and
NAME.star. Existing files of these tools are replaced; other files are kept.

` + conventions + `

Execution counts and versions are not exported.`
	cmd.Example = `  mcp-metatool tools export report > report.toml
  mcp-metatool tools export --out tools/
  mcp-metatool tools export | ssh host mcp-metatool tools import - --yes`
	cmd.Flags().StringVarP(&to, "out", "o", "", "write to `FILE`, if that ends in .toml, or else to a directory")
	return cmd
}

func (v *storeView) export(names []string, to string) error {
	if v.asJSON && to == "" {
		return &exitError{exitUsage, errors.New("tools export: --json needs --out, since the export is TOML (tools show NAME --json prints a tool as JSON)")}
	}
	list, err := v.exported(names)
	if err != nil {
		return err
	}
	if len(list) == 0 && to == "" { // an empty export is useless
		return errors.Join(fmt.Errorf("no tools are saved in %s", v.dir), v.unused())
	}
	if folder(to) {
		err = bundle.WriteFolder(to, list)
	} else {
		var text []byte
		if text, err = bundle.Text(list); err == nil && to != "" {
			err = bundle.WriteText(to, text)
		} else if err == nil {
			_, err = v.out.Write(text)
		}
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if to != "" {
		err = v.reportExport(list, to)
	}
	if len(names) == 0 {
		err = errors.Join(err, v.unused())
	}
	return err
}

// folder reports whether an export to that name is a directory.
func folder(to string) bool {
	if to == "" {
		return false
	}
	if info, err := os.Stat(to); err == nil {
		return info.IsDir()
	}
	return filepath.Ext(to) != ".toml"
}

// exported returns the tools to export, each once, with the files beside them.
func (v *storeView) exported(names []string) ([]bundle.Tool, error) {
	var definitions []tools.Definition
	seen := map[string]bool{}
	for _, name := range names {
		d, err := v.Get(name)
		if err != nil {
			return nil, v.explain(name, err)
		}
		if !seen[name] {
			definitions = append(definitions, d)
		}
		seen[name] = true
	}
	if len(names) == 0 {
		definitions = v.List()
	}
	fileStore := bundle.NewFileStore(v.cfg.Store.Dir)
	list := make([]bundle.Tool, len(definitions))
	for i, d := range definitions {
		files, err := fileStore.Files(d.Name)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w (in %s)", d.Name, err, v.cfg.Store.Dir)
		}
		list[i] = bundle.Tool{Definition: d, Files: files}
	}
	return list, nil
}

func (v *storeView) reportExport(list []bundle.Tool, to string) error {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	if v.asJSON {
		return writeJSON(v.out, map[string]any{"exported": names, "to": to})
	}
	_, err := fmt.Fprintf(v.out, "exported to %s: %s\n", to, strings.Join(names, ", "))
	return err
}
