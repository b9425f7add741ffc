// Package tools has the verbs about saved tools: tools and lint.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/script/saved"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Commands returns the verbs about saved tools.
func Commands() []*cobra.Command {
	return []*cobra.Command{toolsCommand(), lintCommand()}
}

// toolsCommand only works on the store. tools starts no upstream.
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
		Args:  cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			uses := make([]string, len(verbs))
			for i, verb := range verbs {
				uses[i] = "tools " + verb.Use
			}
			return cli.Usage(fmt.Errorf("tools: choose one of: %s", strings.Join(uses, ", ")))
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// storeView is a run of a verb of tools, with the store open.
type storeView struct {
	*tools.Store
	cli.Settings
	cmd    *cobra.Command
	cfg    *config.Config
	log    *slog.Logger
	dir    string
	out    io.Writer
	asJSON bool
	token  string // the owner of the tools; "": the tools that clients share
}

func storeCommand(use, short string, args cobra.PositionalArgs, f func(v *storeView, args []string) error) *cobra.Command {
	return new(storeView).command(use, short, args, f)
}

// command makes the command of a verb. The caller adds the flags of only this verb.
func (v *storeView) command(use, short string, args cobra.PositionalArgs, f func(v *storeView, args []string) error) *cobra.Command {
	v.cmd = &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := v.Load()
			if err != nil {
				return err
			}
			v.out = cmd.OutOrStdout()
			return v.with(cfg, v.Logger(cfg), func() error { return f(v, args) })
		},
	}
	v.AddFlags(v.cmd, slog.LevelError)
	switch v.cmd.Name() {
	case "show", "delete":
		v.cmd.ValidArgsFunction = cli.Choices(v.SavedTools).Complete(1)
	case "history", "revert":
		v.cmd.ValidArgsFunction = cli.Choices(v.EverSaved).Complete(1)
	case "export":
		v.cmd.ValidArgsFunction = cli.Choices(v.SavedTools).Complete(0)
	case "import":
		v.cmd.ValidArgsFunction = cli.FilesOf("toml")
	}
	v.cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	v.cmd.Flags().StringVar(&v.token, "token", "", "the saved tools of the clients with the token `NAME`, which have their own")
	cli.CompleteFlag(v.cmd, "token", v.Tokens)
	return v.cmd
}

// with opens the store, calls f, and closes the store.
func (v *storeView) with(cfg *config.Config, log *slog.Logger, f func() error) error {
	token, err := cli.OwnerOf(cfg, v.token)
	if err != nil {
		return cli.Usage(err)
	}
	store, err := host.OpenTools(v.cmd.Context(), cfg, token, log)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	own := *cfg
	own.Store.Dir = saved.Place{Dir: cfg.Store.Dir, Token: token}.Folder() // of the files next to tools
	v.cfg, v.log, v.dir, v.Store = &own, log, store.Dir, store.Store
	if store.Stale != nil {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "note: the store of the fleet does not answer, so these are the saved tools as this machine knew them last: %s\n", display.Line(store.Stale.Error(), 300))
	}
	return errors.Join(f(), store.Close())
}

// listedTool is a tool in the output of tools list --json.
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
		err = cli.WriteJSON(v.out, list)
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
	t := cli.NewTable(w)
	t.Head("NAME", "MODIFIED", cli.Right("RUNS"), "DESCRIPTION")
	for _, d := range definitions {
		t.Add(d.Name, d.Metadata.Modified, d.Metadata.ExecutionCount, display.Line(d.Description, 70))
	}
	return t.Flush()
}

func showTool(v *storeView, args []string) error {
	d, err := v.Get(args[0])
	if err != nil {
		return v.explain(args[0], err)
	}
	if v.asJSON { // the file unchanged, with members unknown to this version
		file, err := regular.Read(context.Background(), filepath.Join(v.dir, d.Name+".json"), tools.MaxFileBytes)
		if err != nil {
			return fmt.Errorf("tool %q: %w", d.Name, err)
		}
		_, err = fmt.Fprintf(v.out, "%s\n", cli.IndentJSON(file))
		return err
	}
	t := cli.NewTable(v.out)
	t.Add("name", d.Name)
	t.Add("description", display.Line(d.Description, 1000))
	t.Add("created", cli.Stamp(d.Metadata.Created))
	t.Add("modified", cli.Stamp(d.Metadata.Modified))
	runs := fmt.Sprint(d.Metadata.ExecutionCount)
	if at := d.Metadata.LastExecuted; !at.IsZero() {
		runs += ", the last one " + cli.Stamp(at)
	}
	t.Add("runs", runs)
	if limits := d.Limits.JSON(); limits != nil {
		t.Add("limits", display.Line(string(limits), 200))
	}
	t.Add("may call", mayCall(&d))
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(cli.Raw(v.out), "\n%s\n%s\n", cli.Paint(v.out, display.Bold, "inputSchema"), cli.Indented(string(cli.IndentJSON(d.InputSchema))))
	if d.OutputSchema != nil {
		fmt.Fprintf(cli.Raw(v.out), "\n%s\n%s\n", cli.Paint(v.out, display.Bold, "outputSchema"), cli.Indented(string(cli.IndentJSON(d.OutputSchema))))
	}
	_, err = fmt.Fprintf(cli.Raw(v.out), "\n%s\n%s\n", cli.Paint(v.out, display.Bold, "code"), cli.Indented(d.Code))
	return err
}

func deleteTool(v *storeView, args []string) error {
	if err := v.Delete(args[0]); err != nil {
		return v.explain(args[0], err)
	}
	if v.asJSON {
		return cli.WriteJSON(v.out, map[string]string{"deleted": args[0]})
	}
	_, err := fmt.Fprintf(v.out, "deleted %s\n", args[0])
	return err
}

// explain adds the names of the saved tools to the error about an unknown name.
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

func historyCommand() *cobra.Command {
	v := &storeView{}
	var between string
	cmd := v.command("history [NAME]", "List the versions of a saved or deleted tool, or what changed between two",
		cobra.MaximumNArgs(1), func(v *storeView, args []string) error {
			switch {
			case len(args) == 0 && between != "":
				return cli.Usage(errors.New("tools history: --diff: give the NAME of a tool"))
			case len(args) == 0:
				return v.histories()
			case between != "":
				return v.difference(args[0], between)
			}
			return v.history(args[0])
		})
	cmd.Long = fmt.Sprintf(`List the versions of a saved or deleted tool, newest first; without a NAME, list
the tools that have any.

Whenever an agent or a person changes, deletes, imports or reverts a tool, the previous
content becomes a version. Execution counts and manual edits of the files
make no versions. The newest %d versions of each tool are kept, also those of the
%d tools that were deleted last, as files under tools/.history in the store's
directory. If a version cannot be kept, for example because the disk is full, the
tool is not changed or deleted.

CHANGED lists the differences from the version before.`, tools.MaxVersions, tools.MaxDeleted)
	cmd.Example = `  mcp-metatool tools history report
  mcp-metatool tools history report --diff 3      # from version 3 to now
  mcp-metatool tools history report --diff 2..3`
	cmd.Flags().StringVar(&between, "diff", "", "show what changed from version `N` to now, or with N..M to version M")
	return cmd
}

func revertCommand() *cobra.Command {
	cmd := storeCommand("revert NAME [VERSION]", "Restore a version of a saved or deleted tool",
		cobra.RangeArgs(1, 2), revertTool)
	cmd.Long = `Restore a version of a saved or deleted tool, see tools history.

Without a VERSION, the newest one that differs from the current content is
restored. The content that is replaced becomes a version itself.`
	return cmd
}

// listedVersion is a version of a tool in the output of tools history --json.
type listedVersion struct {
	Version int        `json:"version,omitempty"` // 0 is the current version
	Saved   *time.Time `json:"saved,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	EndedBy string     `json:"endedBy,omitempty"`
	// Changed are the members that differ from the version before; null if unknown.
	Changed []string `json:"changed"`
	Size    int64    `json:"size"` // of the version's file
	Hash    string   `json:"hash,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// versions returns the current version of a tool, unless the tool is deleted, and its earlier
// versions, newest first.
func (v *storeView) versions(name string) ([]tools.Version, error) {
	versions, err := v.History(name)
	if err != nil {
		return nil, v.explain(name, err)
	}
	current, err := v.Get(name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return versions, nil
	case err != nil:
		return nil, err
	}
	file, err := current.File()
	now := tools.Version{Definition: current, Size: int64(len(file)), Problem: err}
	return append([]tools.Version{now}, versions...), nil
}

func (v *storeView) history(name string) error {
	versions, err := v.versions(name)
	if err != nil {
		return err
	}
	list := make([]listedVersion, len(versions))
	for i := range versions {
		var before *tools.Version
		if i+1 < len(versions) {
			before = &versions[i+1]
		}
		list[i] = listed(&versions[i], before)
	}
	if v.asJSON {
		return cli.WriteJSON(v.out, list)
	}
	t := cli.NewTable(v.out)
	t.Head("VERSION", "SAVED", "ENDED", "BY", "CHANGED", cli.Right("SIZE"), "HASH")
	for _, l := range list {
		number, ended := "now", display.Cell{}
		if l.Version > 0 {
			number, ended = strconv.Itoa(l.Version), cli.TimeCell(*l.Ended)
		}
		if l.Problem != "" {
			t.Add(number, "", ended, l.EndedBy, "unreadable: "+display.Line(l.Problem, 60), display.Size(uint64(l.Size)), "-")
			continue
		}
		t.Add(number, *l.Saved, ended, l.EndedBy, strings.Join(l.Changed, ", "), display.Size(uint64(l.Size)), l.Hash[:12])
	}
	return t.Flush()
}

// listed returns v for the output. before is the version before v, nil if unknown.
func listed(v, before *tools.Version) listedVersion {
	l := listedVersion{Version: v.Number, Size: v.Size, EndedBy: string(v.EndedBy)}
	if v.Number > 0 {
		l.Ended = &v.Ended
	}
	if v.Problem != nil {
		l.Problem = v.Problem.Error()
		return l
	}
	l.Saved, l.Hash = &v.Definition.Metadata.Modified, v.Definition.Hash()
	if before != nil && before.Problem == nil {
		l.Changed = append([]string{}, v.Definition.Changes(&before.Definition)...)
	}
	return l
}

// listedHistory is a tool in the output of tools history --json without NAME.
type listedHistory struct {
	Name     string    `json:"name"`
	Versions int       `json:"versions"`
	Last     time.Time `json:"last"` // when the last version ended
	Deleted  bool      `json:"deleted"`
}

func (v *storeView) histories() error {
	names, err := v.Histories()
	if err != nil {
		return err
	}
	list := []listedHistory{}
	for _, name := range names {
		versions, err := v.History(name)
		if err != nil || len(versions) == 0 {
			continue // removed in the meantime
		}
		_, err = v.Get(name)
		list = append(list, listedHistory{name, len(versions), versions[0].Ended, errors.Is(err, tools.ErrNotFound)})
	}
	if v.asJSON {
		return cli.WriteJSON(v.out, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(v.out, "no tool has versions")
		return err
	}
	t := cli.NewTable(v.out)
	t.Head("NAME", cli.Right("VERSIONS"), "LAST CHANGE", "")
	for _, h := range list {
		state := ""
		if h.Deleted {
			state = "deleted"
		}
		t.Add(h.Name, h.Versions, h.Last, state)
	}
	return t.Flush()
}

// difference shows the difference between two versions: "N..M", or "N" for N..now.
func (v *storeView) difference(name, between string) error {
	versions, err := v.versions(name)
	if err != nil {
		return err
	}
	first, last, both := strings.Cut(between, "..")
	if !both {
		last = "now"
	}
	var texts [2][]byte
	for i, number := range []string{first, last} {
		version, err := findVersion(versions, number)
		if err == nil {
			texts[i], err = bundle.Review(&version.Definition)
		}
		if err != nil {
			return cli.Usage(fmt.Errorf("tool %q: --diff %s: %w", name, between, err))
		}
	}
	text := change.Diff(name+" "+first, texts[0], name+" "+last, texts[1])
	if text == "" {
		text = fmt.Sprintf("%s and %s are the same\n", first, last)
	}
	_, err = fmt.Fprint(cli.Raw(v.out), cli.ColorDiff(v.out, text))
	return err
}

// findVersion finds a version by its number, "now" for the current version.
func findVersion(versions []tools.Version, number string) (*tools.Version, error) {
	n, err := strconv.Atoi(number)
	if number == "now" {
		n, err = 0, nil
	}
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q is not the number of a version (write N or N..M)", number)
	}
	for i := range versions {
		if versions[i].Number == n {
			return &versions[i], versions[i].Problem
		}
	}
	if n == 0 {
		return nil, errors.New("it is deleted (write N..M)")
	}
	return nil, fmt.Errorf("%w: %d", tools.ErrNoVersion, n)
}

func revertTool(v *storeView, args []string) error {
	name, number := args[0], 0
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return cli.Usage(fmt.Errorf("%q is not the number of a version (tools history %s lists them)", args[1], name))
		}
		number = n
	}
	to, changed, err := v.Revert(name, number)
	switch {
	case errors.Is(err, tools.ErrNoVersion):
		return fmt.Errorf("%w (tools history %s lists the versions)", err, name)
	case err != nil:
		return v.explain(name, err)
	}
	if v.asJSON {
		return cli.WriteJSON(v.out, map[string]any{"name": name, "version": to.Number, "changed": changed})
	}
	if !changed {
		_, err = fmt.Fprintf(v.out, "%s is the same as version %d already\n", name, to.Number)
		return err
	}
	_, err = fmt.Fprintf(v.out, "%s restored to version %d, saved %s\n", name, to.Number, cli.Stamp(to.Definition.Metadata.Modified))
	return err
}

// conventions is the part of the help of export and import about files next to tools.
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
		return cli.Usage(errors.New("tools export: --json needs --out, since the export is TOML (tools show NAME --json prints a tool as JSON)"))
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

// folder reports whether an export to the name is a directory.
func folder(to string) bool {
	if to == "" {
		return false
	}
	if info, err := os.Stat(to); err == nil {
		return info.IsDir()
	}
	return filepath.Ext(to) != ".toml"
}

// exported returns the tools to export, each once, with the files next to the tools.
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
		return cli.WriteJSON(v.out, map[string]any{"exported": names, "to": to})
	}
	_, err := fmt.Fprintf(v.out, "exported to %s: %s\n", to, strings.Join(names, ", "))
	return err
}
