package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func importCommand() *cobra.Command {
	v := &storeView{}
	m := &toolImport{storeView: v}
	cmd := v.command("import PATH", "Save the tools of an export, after showing the changes and asking",
		cobra.ExactArgs(1), func(_ *storeView, args []string) error { return m.run(args[0]) })
	cmd.Long = `Save the tools of an export: a file, a directory, or - for standard input. A .json
file is a tool as tools show --json prints it. The changes are shown as a diff, and
you are asked whether to save them; without a terminal, give --yes.

Nothing is saved unless every tool can be saved: its name, schemas and limits must
be valid, and its script must compile in the sandbox with the servers of the
configuration. No server is started, and no script runs. The previous content of a
tool becomes a version, see tools history.

` + conventions + `
The smoke tests of an export can name programs to start, so read what is shown.
Files have no versions. Files that are not in the export are kept.

The exit code is 2 if the export is not valid, or if there is no terminal to ask on.`
	cmd.Example = `  mcp-metatool tools import --dry-run tools/
  mcp-metatool tools import report.toml --yes`
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&m.dry, "dry-run", false, "only show the changes")
	return cmd
}

// toolImport is a run of tools import.
type toolImport struct {
	*storeView
	yes, dry bool
	path     string
	changes  []*toolChange
}

// The changes of a tool or a file.
const (
	stateNew     = "new"
	stateChanged = "changed"
	stateSame    = "same"
)

// toolChange is the change of a tool by an import, in the output of --json.
type toolChange struct {
	Name    string       `json:"name"`
	State   string       `json:"state"`
	Changed []string     `json:"changed,omitempty"` // members of the definition
	Files   []fileChange `json:"files,omitempty"`   // next to the tool
	// Hides is the tool of an upstream, as upstream.tool, that agents can no longer call if the
	// tool exists, because the saved tool takes its name.
	Hides string `json:"hides,omitempty"`
	// Permissions are the rights of the tool. NewPermissions are the rights that the saved tool
	// lacks; Unlisted are the rights that the export does not list.
	Permissions    []string `json:"permissions,omitempty"`
	NewPermissions []string `json:"newPermissions,omitempty"`
	Unlisted       []string `json:"unlisted,omitempty"`

	derived *tools.Permissions
	tool    bundle.Tool
	before  tools.Definition // the current definition, if saved is set
	saved   bool             // the tool exists already
}

// fileChange is the change of a file next to a tool by an import.
type fileChange struct {
	Name  string `json:"name"`
	State string `json:"state"`

	file   bundle.File
	before string
}

// any reports whether the import changes anything of the tool.
func (c *toolChange) any() bool {
	return c.State != stateSame || slices.ContainsFunc(c.Files, func(f fileChange) bool { return f.State != stateSame })
}

func (m *toolImport) run(path string) error {
	m.path = path
	list, err := m.read()
	if err != nil {
		return cli.Usage(fmt.Errorf("import: %w", err))
	}
	if len(list) == 0 {
		return cli.Usage(fmt.Errorf("import: %s has no tools", path))
	}
	for _, t := range list {
		c, err := m.compare(t)
		if err != nil {
			return err
		}
		m.changes = append(m.changes, c)
	}
	if err := m.check(m.cmd.Context()); err != nil {
		return err
	}
	todo := slices.ContainsFunc(m.changes, (*toolChange).any)
	if !m.asJSON {
		m.show()
	}
	if todo && !m.dry {
		if err := m.ask(); err != nil {
			return err
		}
		if err := m.apply(); err != nil {
			return err
		}
	}
	return m.summarize(todo)
}

func (m *toolImport) read() ([]bundle.Tool, error) {
	if m.path != "-" {
		return bundle.Read(m.cmd.Context(), m.path)
	}
	data, err := regular.ReadAll(m.cmd.Context(), m.cmd.InOrStdin(), bundle.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return bundle.Parse(data, "standard input")
}

// compare compares a tool of the export with the saved tool.
func (m *toolImport) compare(t bundle.Tool) (*toolChange, error) {
	c := &toolChange{Name: t.Name, State: stateNew, Hides: m.hidden(t.Name), tool: t}
	before, err := m.Get(t.Name)
	switch {
	case err == nil:
		c.saved, c.before, c.State = true, before, stateSame
		if c.Changed = t.Changes(&before); c.Changed != nil {
			c.State = stateChanged
		}
	case !errors.Is(err, tools.ErrNotFound):
		return nil, fmt.Errorf("import: %w", err)
	}
	existing, err := bundle.NewFileStore(m.cfg.Store.Dir).Files(t.Name)
	if err != nil {
		return nil, fmt.Errorf("import: tool %q: %w (in %s)", t.Name, err, m.cfg.Store.Dir)
	}
	for _, f := range t.Files {
		change := fileChange{Name: bundle.FilesDir + "/" + f.Name, State: stateNew, file: f}
		if i := slices.IndexFunc(existing, func(s bundle.File) bool { return s.Name == f.Name }); i >= 0 {
			change.before, change.State = existing[i].Content, stateChanged
			if change.before == f.Content {
				change.State = stateSame
			}
		}
		c.Files = append(c.Files, change)
	}
	return c, nil
}

// hidden returns the tool of an upstream that a saved tool with the name would hide, if the
// upstream has the tool: no server is asked.
func (m *toolImport) hidden(name string) string {
	for _, u := range m.cfg.Upstreams {
		if tool, ok := strings.CutPrefix(name, u.Prefix); ok && u.Prefix != "" && tool != "" && !u.Disabled {
			return u.Name + "." + tool
		}
	}
	return ""
}

// check returns an error with all reasons not to save the tools, as save_tool does.
func (m *toolImport) check(ctx context.Context) error {
	var wrong error
	add := func(t *bundle.Tool, what string) {
		wrong = errors.Join(wrong, fmt.Errorf("import: %s: tool %q: %s", m.path, t.Name, what))
	}
	limits := compose.New(compose.Options{Log: m.log, Timeout: m.cfg.Execution.Timeout, Limits: host.RunLimits(m.cfg.Execution)})
	known := m.List()
	var scripts []*toolChange
	for _, c := range m.changes {
		if c.State == stateSame {
			continue
		}
		t := &c.tool
		switch taken := builtin.Reserved(t.Name); taken {
		case "":
		case t.Name:
			add(t, "is the name of a built-in tool (choose another)")
		default:
			add(t, fmt.Sprintf("could be mistaken for the built-in tool %s (choose another)", taken))
		}
		for _, d := range known {
			if d.Name != t.Name && strings.EqualFold(d.Name, t.Name) {
				add(t, (&tools.ClashError{Name: t.Name, Existing: d.Name}).Error())
			}
		}
		for _, violation := range limits.CheckLimits(t.Limits) {
			add(t, violation.String())
		}
		if len(t.Code) > builtin.MaxCode {
			add(t, fmt.Sprintf("code is %d bytes long (at most %d)", len(t.Code), builtin.MaxCode))
			continue
		}
		scripts = append(scripts, c)
	}
	if err := m.checkScripts(ctx, scripts, add); err != nil {
		return err
	}
	if wrong != nil {
		return cli.Usage(errors.Join(wrong, errors.New("import: nothing was saved")))
	}
	return nil
}

// checkScripts checks the scripts in the sandbox, without running them.
func (m *toolImport) checkScripts(ctx context.Context, list []*toolChange, wrong func(t *bundle.Tool, what string)) error {
	if len(list) == 0 {
		return nil
	}
	return offline(ctx, m.cfg, m.log, m.imported(), func(ctx context.Context, with func(cli.Script) (scripts, error)) error {
		for _, changed := range list {
			t, bounds := &changed.tool, ""
			c, err := with(cli.Script{File: t.Name, Name: t.Name, Code: t.Code})
			if err == nil {
				err = c.Check(ctx, t.Name, t.Code)
			}
			if err == nil {
				bounds, err = changed.derive(ctx, c)
			}
			var source *compose.SourceError
			var failure *compose.Failure
			switch {
			case err == nil && bounds != "":
				wrong(t, bounds)
			case err == nil:
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.As(err, &source), errors.As(err, &failure):
				wrong(t, "code: "+err.Error())
			default:
				return fmt.Errorf("import: tool %q: %w", t.Name, err)
			}
		}
		for _, changed := range list { // only now, so that no permission is derived from the text of an export
			changed.tool.Permissions = changed.derived
		}
		known, err := m.knownDefinitions(ctx, m.imported())
		if err != nil {
			return err
		}
		for _, changed := range list {
			if changed.tool.Permissions != nil { // otherwise the tool has a mistake
				changed.tool.Permissions = known.see(changed.tool.Permissions)
			}
		}
		return nil
	})
}

// show prints the changes by the import.
func (m *toolImport) show() {
	for _, c := range m.changes {
		if c.State != stateSame {
			before, from := []byte(nil), "nothing"
			if c.saved {
				before, from = review(&c.before), c.Name+" saved"
			}
			m.diff(from, before, c.Name+" imported", review(&c.tool.Definition))
		}
		for _, f := range c.Files {
			if f.State == stateSame || bundle.IsRecording(f.Name) { // too long for people to read
				continue
			}
			from := f.Name + " saved"
			if f.State == stateNew {
				from = "nothing"
			}
			m.diff(from, []byte(f.before), f.Name+" imported", []byte(f.file.Content))
		}
	}
	m.showPermissions()
	for _, c := range m.changes {
		fmt.Fprintf(m.out, "%-8s %s", c.State, c.Name)
		if c.Changed != nil {
			fmt.Fprintf(m.out, ": %s", strings.Join(c.Changed, ", "))
		}
		fmt.Fprintln(m.out)
		if c.Hides != "" && c.State != stateSame {
			fmt.Fprintf(m.out, "note     %s hides %s from agents, if there is such a tool\n", c.Name, c.Hides)
		}
		for _, f := range c.Files {
			fmt.Fprintf(m.out, "%-8s %s, %s\n", f.State, f.Name, display.Size(uint64(len(f.file.Content))))
		}
	}
}

// diff prints a diff.
func (m *toolImport) diff(oldName string, old []byte, newName string, now []byte) {
	fmt.Fprint(cli.Raw(m.out), cli.ColorDiff(m.out, change.Diff(oldName, old, newName, now)))
}

// review returns the text of a tool for a diff.
func review(d *tools.Definition) []byte {
	text, err := bundle.Review(d)
	if err != nil { // cannot happen: the definition is valid
		return fmt.Appendf(nil, "%v\n", err)
	}
	return text
}

// ask asks the user whether to save the tools. The error says if not.
func (m *toolImport) ask() error {
	if m.yes {
		return nil
	}
	in, ok := m.cmd.InOrStdin().(*os.File)
	if !ok || m.path == "-" || !cli.IsTerminal(in) {
		return cli.Usage(errors.New("import: nothing was saved: there is no terminal to ask on (give --yes, or --dry-run to see the changes)"))
	}
	where := m.cfg.Store.Dir
	if len(m.cfg.Store.NATS) > 0 {
		where = "the fleet " + m.cfg.Store.Prefix
	}
	fmt.Fprintf(m.cmd.ErrOrStderr(), "Save this in %s? [y/N] ", where)
	line := make(chan string, 1) // the reader may have stopped waiting
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // the end of input means no
		line <- text
	}()
	select {
	case <-m.cmd.Context().Done():
		fmt.Fprintln(m.cmd.ErrOrStderr())
		return context.Cause(m.cmd.Context())
	case text := <-line:
		if answer := strings.ToLower(strings.TrimSpace(text)); answer == "y" || answer == "yes" {
			return nil
		}
	}
	return cli.Failed(errors.New("import: nothing was saved"))
}

// apply saves the tools, each either completely or not at all.
func (m *toolImport) apply() error {
	fileStore := bundle.NewFileStore(m.cfg.Store.Dir)
	var failed error
	for _, c := range m.changes {
		if err := m.save(fileStore, c); err != nil {
			failed = errors.Join(failed, fmt.Errorf("import: %w", err))
		}
	}
	return failed
}

func (m *toolImport) save(fileStore bundle.FileStore, c *toolChange) error {
	if c.State != stateSame {
		if now, err := m.Get(c.Name); c.saved != (err == nil) || c.saved && now.Changes(&c.before) != nil {
			return fmt.Errorf("tool %q: has changed since it was shown, and is not imported (import again)", c.Name)
		}
		if _, _, err := m.Import(c.tool.Definition); err != nil {
			return err
		}
	}
	var files []bundle.File
	for _, f := range c.Files {
		if f.State != stateSame {
			files = append(files, f.file)
		}
	}
	if err := fileStore.Put(files); err != nil {
		return fmt.Errorf("tool %q: %w (the tool itself is imported)", c.Name, err)
	}
	return nil
}

// summarize prints the changes that were made.
func (m *toolImport) summarize(todo bool) error {
	if m.asJSON {
		return cli.WriteJSON(m.out, map[string]any{"imported": todo && !m.dry, "tools": m.changes})
	}
	count := map[string]int{}
	files := 0
	for _, c := range m.changes {
		count[c.State]++
		for _, f := range c.Files {
			if f.State != stateSame {
				files++
			}
		}
	}
	others := ""
	switch {
	case files == 1:
		others = "; 1 file"
	case files > 1:
		others = fmt.Sprintf("; %d files", files)
	}
	what := "imported"
	switch {
	case m.dry:
		what = "nothing was saved (--dry-run)"
	case !todo:
		what = "nothing to import"
	}
	_, err := fmt.Fprintf(m.out, "%s: %d new, %d changed, %d same%s\n", what, count[stateNew], count[stateChanged], count[stateSame], others)
	return err
}

// imported are the saved tools as they will be after an import.
type imported struct {
	*tools.Store
	tools map[string]tools.Definition
}

func (m *toolImport) imported() imported {
	all := imported{m.Store, map[string]tools.Definition{}}
	for _, c := range m.changes {
		def := c.tool.Definition
		if c.State == stateSame {
			continue
		}
		if def.Permissions != nil { // the rest only comes from the export
			def.Permissions = &tools.Permissions{Bounds: def.Permissions.Bounds}
		}
		all.tools[c.Name] = def
	}
	return all
}

// Get implements compose.Saved.
func (i imported) Get(name string) (tools.Definition, error) {
	if def, ok := i.tools[name]; ok {
		return def, nil
	}
	return i.Store.Get(name)
}

// List implements compose.Saved.
func (i imported) List() []tools.Definition {
	list := i.Store.List()
	for _, def := range i.tools {
		if at := slices.IndexFunc(list, func(d tools.Definition) bool { return d.Name == def.Name }); at >= 0 {
			list[at] = def
		} else {
			list = append(list, def)
		}
	}
	slices.SortFunc(list, func(a, b tools.Definition) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// derive derives the permissions of an imported tool. The permissions in its export are only used
// for the names of tools, since no server is asked. The text describes the mistakes in the bounds.
func (c *toolChange) derive(ctx context.Context, s scripts) (wrong string, err error) {
	t := &c.tool
	said := t.Permissions
	derived, violations, err := s.Permissions(ctx, t.Definition)
	if err != nil {
		return "", err
	}
	for _, v := range violations {
		wrong += strings.Replace(v.String(), "/permissions/", "/bounds/", 1) + "\n"
	}
	if said != nil && said.Code == "" || said.Of(t.Code) {
		resolveAs(derived, said.List())
		if added := derived.Added(said); len(added) > 0 {
			c.Unlisted = added
		}
	}
	var before *tools.Permissions
	if c.saved {
		before = c.before.Permissions
	}
	c.Permissions, c.NewPermissions = derived.List(), derived.Added(before)
	c.derived = derived
	return strings.TrimSuffix(wrong, "\n"), nil
}

// knownDefinitions are the digests of servers' tools that are known without a start of servers.
type knownDefinitions struct {
	servers map[string]map[string]string // by server and tool
	saved   imported
}

// knownDefinitions returns the pinned digests, and for unpinned tools the digests at the last run
// of their servers. An unreadable file with pins is an error.
func (m *toolImport) knownDefinitions(ctx context.Context, saved imported) (*knownDefinitions, error) {
	known := &knownDefinitions{map[string]map[string]string{}, saved}
	pinned := pins.New()
	kept, err := host.ReadPins(ctx, m.cfg, m.Logger(m.cfg))
	if err == nil && kept.Data != nil {
		pinned, err = pins.Decode(kept.Data, m.cfg.PinsPath())
	}
	if kept != nil {
		err = errors.Join(err, kept.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	before := cli.NewRemembered(ctx, m.cfg)
	for _, u := range supervise.Enabled(m.cfg) {
		digests := map[string]string{}
		for name, raw := range before.Of(u.Name) {
			digests[name] = pins.Digest(raw)
		}
		if m.cfg.PinsOf(u) != config.PinsOff {
			maps.Copy(digests, pinned.Tools(u.Name))
		}
		known.servers[u.Name] = digests
	}
	return known, nil
}

// see returns the permissions of an imported tool with all known digests.
func (k *knownDefinitions) see(p *tools.Permissions) *tools.Permissions {
	if len(p.List()) == 0 {
		return p
	}
	bare := *p
	bare.Definitions = nil // without digests, all tools of p are unseen
	hashes := map[string]string{}
	for _, def := range k.saved.List() {
		hashes[def.Name] = def.Hash()
	}
	of := func(digests map[string]string) func(string) string {
		return func(name string) string { return digests[name] }
	}
	p = bare.See(tools.SavedServer, slices.Sorted(maps.Keys(hashes)), of(hashes))
	for server, digests := range k.servers {
		if len(digests) > 0 {
			p = p.See(server, slices.Sorted(maps.Keys(digests)), of(digests))
		}
	}
	return p
}

// resolveAs replaces script names in targets by the real names among others, if each script name
// has exactly one real name.
func resolveAs(p *tools.Permissions, names []string) {
	ident := func(target string) string { // "" for a pattern
		server, tool, _ := strings.Cut(target, ".")
		if tools.IsPattern(tool) {
			return ""
		}
		return abi.Ident(server) + "." + abi.Ident(tools.Literal(tool))
	}
	p.Unresolved = slices.DeleteFunc(p.Unresolved, func(target string) bool {
		script := ident(target)
		if script == "" {
			return false
		}
		found := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return ident(n) != script })
		if len(found) != 1 {
			return false
		}
		p.Calls = append(p.Calls, found[0])
		return true
	})
	slices.Sort(p.Calls)
	p.Calls = slices.Compact(p.Calls)
}

// showPermissions prints the new permissions of the imported tools.
func (m *toolImport) showPermissions() {
	for _, c := range m.changes {
		if c.State == stateSame {
			continue
		}
		for _, target := range c.NewPermissions {
			fmt.Fprintf(cli.Raw(m.out), "%s %s\n", cli.Paint(m.out, display.Caution, "new permission:"),
				display.Text(fmt.Sprintf("%s may call %s", c.Name, target)))
		}
		if c.Unlisted != nil {
			fmt.Fprintf(cli.Raw(m.out), "%s %s\n", cli.Paint(m.out, display.Caution, "note:"),
				display.Text(fmt.Sprintf("the export of %s does not say that it can call %s", c.Name, strings.Join(c.Unlisted, ", "))))
		}
	}
}

// mayCall describes the permissions of a saved tool for people.
func mayCall(d *tools.Definition) string {
	if !d.Permissions.Of(d.Code) {
		return "not derived yet (when it runs, what its script can)"
	}
	list := d.Permissions.List()
	if len(list) == 0 {
		return "nothing"
	}
	text := strings.Join(list, ", ")
	if d.Permissions.Bounds != nil {
		text += " (its author has narrowed it)"
	}
	return display.Line(text, 2000)
}
