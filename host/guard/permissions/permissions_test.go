package permissions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// servers are the annotations of tools by server and tool. A server without tools has not
// listed any.
type servers map[string]map[string]string

func (s servers) Definition(server, tool string) []byte {
	annotations, ok := s[server][tool]
	if !ok {
		return nil
	}
	return fmt.Appendf(nil, `{"name":"prefix__%s","inputSchema":{},"annotations":%s}`, tool, annotations)
}

func (s servers) ServerTools(server string) ([]string, bool) {
	return slices.Sorted(maps.Keys(s[server])), s[server] != nil
}

func (s servers) Digest(server, tool string) (string, bool) {
	d := s.Definition(server, tool)
	return pins.Digest(d), d != nil
}

func (servers) PinMode(string) pins.Mode { return pins.Off }

func (s servers) resolve(server, tool string, exact bool) (string, string, error) {
	if server == "off" {
		return "", "", &catalog.DisabledError{Server: "off-server"}
	}
	for real, list := range s {
		if abi.Ident(real) != server {
			continue
		}
		var found []string
		for name := range list {
			if exact && name == tool {
				return real, name, nil
			}
			if abi.Ident(name) == tool {
				found = append(found, name)
			}
		}
		switch len(found) {
		case 0:
			return real, tool, &catalog.NotFoundError{Kind: "tool", Server: real, Name: tool}
		case 1:
			return real, found[0], nil
		}
		return real, tool, &catalog.AmbiguousError{Server: real, Name: tool, Tools: found}
	}
	return "", "", &catalog.NotFoundError{Kind: "server", Name: server}
}

const (
	reads    = `{"readOnlyHint":true,"openWorldHint":false}`
	reaches  = `{"readOnlyHint":true}`
	adds     = `{"destructiveHint":false,"openWorldHint":false}`
	repeats  = `{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`
	destroys = `{"openWorldHint":false}`
)

var world = servers{
	"git-hub": {"get-issue": reads, "search": reaches, "add": adds, "put": repeats, "delete.repo": destroys, "a*b": reads, "x-y": reads, "x.y": reads},
	"files":   {"read": reads, "write": destroys},
	"down":    nil,
	"odd":     {"": reads, "a\x01b": reads, "a/b": reads, "[x": reads, `\`: reads},
}

type saved map[string]tools.Definition

func (s saved) Get(name string) (tools.Definition, error) {
	if d, ok := s[name]; ok {
		return d, nil
	}
	return tools.Definition{}, tools.ErrNotFound
}

func (s saved) List() []tools.Definition {
	var list []tools.Definition
	for _, name := range slices.Sorted(maps.Keys(s)) {
		list = append(list, s[name])
	}
	return list
}

// parseReach reads what a script can reach: files.read, files["read"], files.*
func parseReach(code string) (all []abi.Reached) {
	for _, f := range strings.Fields(code) {
		server, tool, exact := "", "", false
		if i := strings.IndexByte(f, '['); i > 0 {
			server, tool, exact = f[:i], strings.Trim(f[i:], `[]"`), true
		} else if server, tool, _ = strings.Cut(f, "."); tool == "*" {
			tool = ""
		}
		all = append(all, abi.Reached{Server: server, Tool: tool, Exact: exact})
	}
	return all
}

func definition(name, code string, bounds ...string) tools.Definition {
	d := tools.Definition{Name: name, Code: code}
	if bounds != nil {
		d.Permissions = &tools.Permissions{Bounds: bounds}
	}
	return d
}

func source(s saved) Source {
	return Source{
		Reach: func(_ context.Context, _, code string) ([]abi.Reached, error) {
			if code == "broken" {
				return nil, errors.New("broken")
			}
			return parseReach(code), nil
		},
		Resolve: world.resolve, Servers: world, Saved: s,
	}
}

func TestDerive(t *testing.T) {
	stored := definition("stored", "files.write")
	stored.Permissions = &tools.Permissions{Calls: []string{"files.read"}, Unresolved: []string{"nix.y"}, Code: tools.CodeDigest("files.write")}
	edited := definition("edited", "files.write") // its permissions are those of other code
	edited.Permissions = &tools.Permissions{Calls: []string{"files.read"}, Code: tools.CodeDigest("old")}
	list := saved{
		"reader": definition("reader", "git_hub.get_issue"), "narrow": definition("narrow", "files.*", "files.read"),
		"outer-one": definition("outer-one", "tools.reader files.write"), "stored": stored, "edited": edited,
		"loop": definition("loop", "tools.loop tools.back"), "back": definition("back", "tools.loop files.read"),
	}
	for _, c := range []struct{ code, want string }{
		{"", ""},
		{"files.read", "files.read"},
		{"git_hub.get_issue", "git-hub.get-issue"},
		{`git_hub["delete.repo"]`, "git-hub.delete.repo"},
		{`git_hub["a*b"]`, `git-hub.a\*b`},
		{`git_hub["get_issue"]`, "git-hub.get-issue"},
		{"git_hub.*", "git-hub.*"},
		{"git_hub.* git_hub.add", "git-hub.*"},
		{"git_hub.x_y", "? git_hub.x_y"}, // ambiguous
		{"git_hub.none", "? git_hub.none"},
		{"down.x", "? down.x"},
		{"down.*", "down.*"},
		{"nix.x nix.*", "? nix.*"},
		{"off.x", "? off.x"},
		{"off.*", "off-server.*"},
		{"tools.reader", "git-hub.get-issue tools.reader"},
		{"tools.outer_one", "files.write git-hub.get-issue tools.outer-one tools.reader"},
		{`tools["outer-one"]`, "files.write git-hub.get-issue tools.outer-one tools.reader"},
		{`tools["outer_one"]`, "? tools.outer_one"}, // as compose does
		{"tools.narrow", "files.read tools.narrow"},
		{"tools.stored", "files.read tools.stored ? nix.y"},
		{"tools.edited", "files.write tools.edited"},
		{"tools.loop", "files.read tools.back tools.loop"},
		{"tools.none", "? tools.none"},
		{"tools.*", "files.read files.write git-hub.get-issue tools.* ? nix.y"},
	} {
		p, wrong, err := source(list).Derive(t.Context(), definition("me", c.code))
		if err != nil || wrong != nil {
			t.Fatal(c.code, wrong, err)
		}
		got := strings.Join(p.Calls, " ")
		if p.Unresolved != nil {
			got = strings.TrimSpace(got + " ? " + strings.Join(p.Unresolved, " "))
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.code, got, c.want)
		}
		if !p.Of(c.code) || p.Of(c.code+" ") {
			t.Errorf("%s: the permissions do not know their script", c.code)
		}
	}
	if _, _, err := source(saved{"x": definition("x", "broken")}).Derive(t.Context(), definition("me", "tools.x")); err == nil {
		t.Error("the error of a script that is called is lost")
	}
}

func TestDefinitions(t *testing.T) {
	p, _, err := source(saved{"r": definition("r", "files.read")}).Derive(t.Context(), definition("me", "files.* git_hub.add tools.r down.x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(p.Definitions)), " "); got != "files.read files.write git-hub.add tools.r" {
		t.Error(got)
	}
	if p.Definitions["files.read"] == "" || p.Definitions["files.read"] == p.Definitions["files.write"] || len(p.Definitions["files.read"]) != 64 {
		t.Error(p.Definitions)
	}
}

// TestDefinitionsAreKept checks that a file can be read again whatever names a server has
// given its tools, and that it says when no definition was known.
func TestDefinitionsAreKept(t *testing.T) {
	for code, want := range map[string]int{"odd.*": 4, "down.x": 0, "nix.y": 0} {
		p, _, err := source(nil).Derive(t.Context(), definition("me", code))
		if err != nil {
			t.Fatal(err)
		}
		again, err := tools.ParsePermissions(p.JSON())
		if err != nil || again.Definitions == nil || len(again.Definitions) != want {
			t.Errorf("%s: %v, %v", code, again, err)
		}
	}
	if p, _, err := source(nil).Derive(t.Context(), definition("me", "")); err != nil || p.Definitions != nil {
		t.Errorf("a tool that calls nothing: %v, %v", p, err)
	}
}

func TestNarrow(t *testing.T) {
	list := saved{"reader": definition("reader", "git_hub.get_issue"), "writer": definition("writer", "files.write")}
	for _, c := range []struct {
		code, bounds, want, wrong string
	}{
		{"files.*", "files.read", "files.read", ""},
		{"files.*", "files.r*", "files.r*", ""},
		{"files.*", "f*.*", "files.*", ""},
		{"files.* git_hub.add", "files.read", "files.read", ""},
		{"files.read git_hub.add", "*.add", "git-hub.add", ""},
		{"files.read files.write", "files.*", "files.read files.write", ""},
		{"files.read", "", "", ""},
		{"down.*", "down.any", "down.any", ""},
		{"down.get_issue", "down.get-issue", "? down.get_issue", ""},
		{"nix.x nix.y", "nix.x", "? nix.x", ""},
		{"git_hub.*", "git-hub.delete.repo", "git-hub.delete.repo", ""},
		{"tools.* files.read", "tools.reader git-hub.*", "git-hub.get-issue tools.reader", ""},
		{"tools.reader tools.writer", "tools.reader git-hub.*", "git-hub.get-issue tools.reader", ""},
		{"tools.reader", "tools.reader", "tools.reader", ""}, // which then may call nothing
		{"files.read", "files.write", "", "/permissions/0"},
		{"files.read", "files.read files.write", "", "/permissions/1"},
		{"files.read", "git-hub.*", "", "/permissions/0"},
		{"files.*", "files.raed", "", "/permissions/0"},
		{"files.*", "files.z*", "", "/permissions/0"},
		{"", "*.*", "", "/permissions/0"},
		{"files.*", "files", "", "/permissions/0"},
		{"files.*", "files.", "", "/permissions/0"},
		{"files.*", "files.[", "", "/permissions/0"},
		{"tools.reader", "files.*", "", "/permissions/0"},
	} {
		bounds := append([]string{}, strings.Fields(c.bounds)...)
		p, wrong, err := source(list).Derive(t.Context(), definition("me", c.code, bounds...))
		if err != nil {
			t.Fatal(err)
		}
		pointer := ""
		for _, v := range wrong {
			pointer += v.Pointer
		}
		got := strings.Join(p.Calls, " ")
		if p.Unresolved != nil {
			got = strings.TrimSpace(got + " ? " + strings.Join(p.Unresolved, " "))
		}
		if pointer != c.wrong || c.wrong == "" && got != strings.TrimSpace(c.want) {
			t.Errorf("%s within %q:\n got %s %v\nwant %s %s", c.code, c.bounds, got, wrong, c.want, c.wrong)
		}
		for _, call := range [][2]string{{"files", "read"}, {"files", "write"}, {"git-hub", "add"}} {
			if c.wrong == "" && p.Allows(call[0], call[1]) && !tools.AnyMatches(bounds, call[0], call[1]) {
				t.Errorf("%s within %q allows %v", c.code, c.bounds, call)
			}
		}
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct{ code, bounds, want string }{
		{"", "", "read idempotent"},
		{"files.read", "", "read idempotent"},
		{"files.read git_hub.search", "", "read idempotent open"},
		{"files.read git_hub.add", "", ""},
		{"git_hub.put", "", ""}, // two of them need not be idempotent
		{"files.write", "", "destroy"},
		{"git_hub.*", "", "destroy open"},
		{"git_hub.*", "git-hub.get*", "read idempotent"},
		{"files.* git_hub.get_issue", "", "destroy"},
		{"tools.reader", "", "read idempotent"},
		{"tools.writer files.read", "", "destroy"},
		{"nix.x", "", "destroy open"},
		{"down.x", "", "destroy open"},
		{"down.*", "", "destroy open"},
	} {
		var bounds []string
		if c.bounds != "" {
			bounds = strings.Fields(c.bounds)
		}
		p, _, err := source(saved{"reader": definition("reader", "git_hub.get_issue"), "writer": definition("writer", "files.write")}).
			Derive(t.Context(), definition("me", c.code, bounds...))
		if err != nil {
			t.Fatal(err)
		}
		h := OfTool(p, world, func(server, tool string) Hints { return HintsOf(world.Definition(server, tool)) })
		var got []string
		for name, is := range map[string]bool{"read": h.ReadOnly, "destroy": h.Destructive, "idempotent": h.Idempotent, "open": h.OpenWorld} {
			if is {
				got = append(got, name)
			}
		}
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v (%v)", c.code, got, want, p.List())
		}
	}
	gone := &tools.Permissions{Calls: []string{"files.gone"}}
	if OfTool(gone, world, nil) != Worst || OfTool(nil, world, nil) != Worst {
		t.Error("what is not known is not the worst")
	}
	for definition, want := range map[string]Hints{
		`{}`: Worst, `{"annotations":null}`: Worst, `{"annotations":{"readOnlyHint":"true"}}`: Worst,
		`{"annotations":{"readOnlyHint":true,"destructiveHint":true,"openWorldHint":false}}`: {ReadOnly: true, Idempotent: true},
	} {
		if got := HintsOf([]byte(definition)); got != want {
			t.Errorf("%s: %+v", definition, got)
		}
	}
}
