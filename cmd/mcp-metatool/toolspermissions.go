package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
		if def.Permissions != nil { // the rest is only what the export says
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

// derive derives what an imported tool may call. What its export says about that is only
// used for the names of tools, since no server is asked. The text says what is wrong with
// the bounds.
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

// knownDefinitions are the digests of servers' tools that are known without starting servers.
type knownDefinitions struct {
	servers map[string]map[string]string // by server and tool
	saved   imported
}

// knownDefinitions returns them: those that are pinned, and of other tools those that the
// servers had when they last ran. A file with pins that cannot be read is an error.
func (m *toolImport) knownDefinitions(ctx context.Context, saved imported) (*knownDefinitions, error) {
	known := &knownDefinitions{map[string]map[string]string{}, saved}
	pinned := pins.New()
	kept, err := host.ReadPins(ctx, m.cfg, m.logger(m.cfg))
	if err == nil && kept.Data != nil {
		pinned, err = pins.Decode(kept.Data, m.cfg.PinsPath())
	}
	if kept != nil {
		err = errors.Join(err, kept.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	before := &remembered{ctx: ctx, cfg: m.cfg, tools: map[string]map[string][]byte{}}
	for _, u := range supervise.Enabled(m.cfg) {
		digests := map[string]string{}
		for name, raw := range before.of(u.Name) {
			digests[name] = pins.Digest(raw)
		}
		if m.cfg.PinsOf(u) != config.PinsOff {
			maps.Copy(digests, pinned.Tools(u.Name))
		}
		known.servers[u.Name] = digests
	}
	return known, nil
}

// see returns the permissions of an imported tool with all digests that are known.
func (k *knownDefinitions) see(p *tools.Permissions) *tools.Permissions {
	if len(p.List()) == 0 {
		return p
	}
	bare := *p
	bare.Definitions = nil // then all of its tools are unseen
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

// resolveAs gives targets that have script names the real names among others, if there is
// exactly one for each.
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

// showPermissions prints what is new about the permissions of the imported tools.
func (m *toolImport) showPermissions() {
	for _, c := range m.changes {
		if c.State == stateSame {
			continue
		}
		for _, target := range c.NewPermissions {
			fmt.Fprintf(raw(m.out), "%s %s\n", paint(m.out, display.Caution, "new permission:"),
				display.Text(fmt.Sprintf("%s may call %s", c.Name, target)))
		}
		if c.Unlisted != nil {
			fmt.Fprintf(raw(m.out), "%s %s\n", paint(m.out, display.Caution, "note:"),
				display.Text(fmt.Sprintf("the export of %s does not say that it can call %s", c.Name, strings.Join(c.Unlisted, ", "))))
		}
	}
}

// mayCall says for people what a saved tool may call.
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
