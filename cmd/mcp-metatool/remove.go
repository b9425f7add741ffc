package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
)

func removeCommand() *cobra.Command {
	return editCommand("remove NAME...", "Remove upstream servers from the configuration",
		"Remove upstream servers from the configuration. The change is shown, and you are asked.\nComments and order of all else are kept.",
		"removed", func(f *edit.File, name string) error { return f.Remove(name) })
}

func enableCommand() *cobra.Command {
	return editCommand("enable NAME...", "Start disabled upstream servers again",
		"Start disabled upstream servers again. The change is shown, and you are asked.",
		"enabled", func(f *edit.File, name string) error { return disable(f, name, false) })
}

func disableCommand() *cobra.Command {
	return editCommand("disable NAME...", "Keep upstream servers in the configuration without starting them",
		"Keep upstream servers in the configuration without starting them. The change is shown,\nand you are asked.",
		"disabled", func(f *edit.File, name string) error { return disable(f, name, true) })
}

// disable sets whether a server is disabled, if it is not as it should be.
func disable(f *edit.File, name string, disabled bool) error {
	cfg, err := f.Parse(config.LoadOptions{Policies: compile.Policy, Unset: func(string, *config.Problem) {}})
	if err != nil {
		return err
	}
	for _, u := range cfg.Upstreams {
		if u.Name == name && u.Disabled == disabled {
			return nil
		}
	}
	return f.Set(name, "disabled", disabled)
}

// editCommand makes a verb that changes servers of the configuration.
func editCommand(use, short, long, done string, change func(f *edit.File, name string) error) *cobra.Command {
	e := &serverEdit{done: done, change: change}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.run(args) },
	}
	cmd.ValidArgsFunction = choices(e.servers).complete(0)
	e.settings.addFlags(cmd, silent)
	e.consent.addFlags(cmd)
	return cmd
}

// serverEdit is one run of remove, enable or disable.
type serverEdit struct {
	settings
	consent
	done   string // what servers are afterwards
	change func(f *edit.File, name string) error
}

func (e *serverEdit) run(names []string) error {
	e.consent.begin(e.cmd)
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.cmd.Context(), Flag: e.config}
	f, err := edit.Open(opts)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	before := f.Text()
	for _, name := range names {
		if err := e.edit(f, name); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	if slices.Equal(before, f.Text()) {
		fmt.Fprintf(e.cmd.OutOrStdout(), "%s: already %s\n", strings.Join(names, ", "), e.done)
		return nil
	}
	unset, err := unsetOf(opts, f.Parse)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("nothing was written: %w", err)}
	}
	for _, name := range names {
		if unset[name] != nil {
			fmt.Fprintf(e.cmd.ErrOrStderr(), "note: %s needs variables that are not set here: %s (it works only where they are set)\n",
				name, strings.Join(unset[name], ", "))
		}
	}
	opts.Unset = func(string, *config.Problem) {} // they are no mistakes in the file
	e.masked = f.Masker(opts).Mask
	written, err := e.apply(e.cmd.Context(), e.cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err == nil && written {
		fmt.Fprintf(e.cmd.OutOrStdout(), "%s %s\n", e.done, strings.Join(names, ", "))
	}
	return err
}

// edit changes one server.
func (e *serverEdit) edit(f *edit.File, name string) error {
	err := e.change(f, name)
	if !errors.Is(err, edit.ErrNoServer) {
		return err
	}
	known, failed := f.Names()
	if failed != nil {
		return failed
	}
	return unknownServer(name, known)
}
