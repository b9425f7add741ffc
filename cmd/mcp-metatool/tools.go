package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/script/saved"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// toolsCommand only works on the store. It starts no upstream.
func toolsCommand() *cobra.Command {
	verbs := []*cobra.Command{
		storeCommand("list", "List the saved tools", cobra.NoArgs, listTools),
		storeCommand("show NAME", "Show a saved tool: description, schema and script", cobra.ExactArgs(1), showTool),
		storeCommand("delete NAME", "Delete a saved tool (revert brings it back)", cobra.ExactArgs(1), deleteTool),
		historyCommand(), revertCommand(), exportCommand(), importCommand(),
	}
	verbs[0].SuggestFor, verbs[2].SuggestFor = []string{"ls"}, []string{"rm", "remove"}
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List, show, delete, export and import saved tools, and restore earlier versions",
		Args:  onlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			uses := make([]string, len(verbs))
			for i, verb := range verbs {
				uses[i] = "tools " + verb.Use
			}
			return &exitError{exitUsage, fmt.Errorf("tools: choose one of: %s", strings.Join(uses, ", "))}
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// storeView is one run of a verb of tools, with the store open.
type storeView struct {
	*tools.Store
	settings
	cmd    *cobra.Command
	cfg    *config.Config
	log    *slog.Logger
	dir    string
	out    io.Writer
	asJSON bool
	token  string // whose own tools they are; "": the tools that clients share
}

func storeCommand(use, short string, args cobra.PositionalArgs, f func(v *storeView, args []string) error) *cobra.Command {
	return new(storeView).command(use, short, args, f)
}

// command makes the command of a verb. The caller adds flags that only this verb has.
func (v *storeView) command(use, short string, args cobra.PositionalArgs, f func(v *storeView, args []string) error) *cobra.Command {
	v.cmd = &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := v.load()
			if err != nil {
				return err
			}
			v.out = cmd.OutOrStdout()
			return v.with(cfg, v.logger(cfg), func() error { return f(v, args) })
		},
	}
	v.addFlags(v.cmd, slog.LevelError)
	switch v.cmd.Name() {
	case "show", "delete":
		v.cmd.ValidArgsFunction = choices(v.savedTools).complete(1)
	case "history", "revert":
		v.cmd.ValidArgsFunction = choices(v.everSaved).complete(1)
	case "export":
		v.cmd.ValidArgsFunction = choices(v.savedTools).complete(0)
	case "import":
		v.cmd.ValidArgsFunction = filesOf("toml")
	}
	v.cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	v.cmd.Flags().StringVar(&v.token, "token", "", "the saved tools of the clients with the token `NAME`, which have their own")
	completeFlag(v.cmd, "token", v.tokens)
	return v.cmd
}

// with opens the store, calls f, and closes the store.
func (v *storeView) with(cfg *config.Config, log *slog.Logger, f func() error) error {
	token, err := ownerOf(cfg, v.token)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	store, err := host.OpenTools(v.cmd.Context(), cfg, token, log)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	own := *cfg
	own.Store.Dir = saved.Place{Dir: cfg.Store.Dir, Token: token}.Folder() // of the files beside tools
	v.cfg, v.log, v.dir, v.Store = &own, log, store.Dir, store.Store
	if store.Stale != nil {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "note: the store of the fleet does not answer, so these are the saved tools as this machine knew them last: %s\n", display.Line(store.Stale.Error(), 300))
	}
	return errors.Join(f(), store.Close())
}

// listedTool is one tool in the output of tools list --json.
type listedTool struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Created        time.Time       `json:"created"`
	Modified       time.Time       `json:"modified"`
	ExecutionCount int64           `json:"executionCount"`
	LastExecuted   *time.Time      `json:"lastExecuted,omitempty"`
	InputSchema    json.RawMessage `json:"inputSchema"`
}

func newListedTool(d tools.Definition) listedTool {
	l := listedTool{
		Name: d.Name, Description: d.Description, Created: d.Metadata.Created, Modified: d.Metadata.Modified,
		ExecutionCount: d.Metadata.ExecutionCount, InputSchema: d.InputSchema,
	}
	if at := d.Metadata.LastExecuted; !at.IsZero() {
		l.LastExecuted = &at
	}
	return l
}

func listTools(v *storeView, _ []string) error {
	definitions := v.List()
	var err error
	if v.asJSON {
		list := make([]listedTool, len(definitions))
		for i, d := range definitions {
			list[i] = newListedTool(d)
		}
		err = writeJSON(v.out, list)
	} else {
		err = listForPeople(v.out, definitions)
	}
	return errors.Join(err, v.unused())
}

// unused returns an error about files in the store that are not valid tools.
func (v *storeView) unused() (err error) {
	for _, p := range v.Problems() {
		err = errors.Join(err, fmt.Errorf("tool %q: %s is not used: %w", p.Name, p.Path, p.Err))
	}
	return err
}

func listForPeople(w io.Writer, definitions []tools.Definition) error {
	if len(definitions) == 0 {
		_, err := fmt.Fprintln(w, "no tools are saved")
		return err
	}
	t := newTable(w)
	t.head("NAME", "MODIFIED", right("RUNS"), "DESCRIPTION")
	for _, d := range definitions {
		t.row(d.Name, d.Metadata.Modified, d.Metadata.ExecutionCount, display.Line(d.Description, 70))
	}
	return t.flush()
}

func showTool(v *storeView, args []string) error {
	d, err := v.Get(args[0])
	if err != nil {
		return v.explain(args[0], err)
	}
	if v.asJSON { // the file itself, with members that this version does not know
		file, err := regular.Read(context.Background(), filepath.Join(v.dir, d.Name+".json"), tools.MaxFileBytes)
		if err != nil {
			return fmt.Errorf("tool %q: %w", d.Name, err)
		}
		_, err = fmt.Fprintf(v.out, "%s\n", indentJSON(file))
		return err
	}
	t := newTable(v.out)
	t.row("name", d.Name)
	t.row("description", display.Line(d.Description, 1000))
	t.row("created", stamp(d.Metadata.Created))
	t.row("modified", stamp(d.Metadata.Modified))
	runs := fmt.Sprint(d.Metadata.ExecutionCount)
	if at := d.Metadata.LastExecuted; !at.IsZero() {
		runs += ", the last one " + stamp(at)
	}
	t.row("runs", runs)
	if limits := d.Limits.JSON(); limits != nil {
		t.row("limits", display.Line(string(limits), 200))
	}
	t.row("may call", mayCall(&d))
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(raw(v.out), "\n%s\n%s\n", paint(v.out, display.Bold, "inputSchema"), indented(string(indentJSON(d.InputSchema))))
	if d.OutputSchema != nil {
		fmt.Fprintf(raw(v.out), "\n%s\n%s\n", paint(v.out, display.Bold, "outputSchema"), indented(string(indentJSON(d.OutputSchema))))
	}
	_, err = fmt.Fprintf(raw(v.out), "\n%s\n%s\n", paint(v.out, display.Bold, "code"), indented(d.Code))
	return err
}

// indented returns text from others, displayable and with each line indented.
func indented(text string) string {
	text = strings.TrimRight(display.Text(text), "\n")
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func deleteTool(v *storeView, args []string) error {
	if err := v.Delete(args[0]); err != nil {
		return v.explain(args[0], err)
	}
	if v.asJSON {
		return writeJSON(v.out, map[string]string{"deleted": args[0]})
	}
	_, err := fmt.Fprintf(v.out, "deleted %s\n", args[0])
	return err
}

// explain adds the names of the saved tools to the error that name is not one of them.
func (v *storeView) explain(name string, err error) error {
	if !errors.Is(err, tools.ErrNotFound) {
		return err
	}
	var names []string
	for _, d := range v.List() {
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("no saved tool %q in %s (it has none)", name, v.dir)
	}
	return fmt.Errorf("no saved tool %q in %s (there are: %s)", name, v.dir, display.Line(strings.Join(names, ", "), 400))
}
