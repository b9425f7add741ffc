package compose

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// pinned has the digests of tools, by target.
type pinned struct {
	mode    pins.Mode
	digests map[string]string
}

func (p pinned) Definition(string, string) []byte    { return nil }
func (p pinned) ServerTools(string) ([]string, bool) { return nil, false }
func (p pinned) PinMode(server string) pins.Mode {
	return map[bool]pins.Mode{true: p.mode, false: pins.Off}[server == "s"]
}
func (p pinned) Digest(server, tool string) (string, bool) {
	d, ok := p.digests[server+"."+tool]
	return d, ok
}

// TestDrift runs saved tools of which the definitions have changed since they were saved.
func TestDrift(t *testing.T) {
	list := savedTools{}
	save := func(name, code string, definitions map[string]string, calls ...string) {
		list.permit(name, code, calls...)
		list[name].Permissions.Definitions = definitions
	}
	save("first", "s.make(n=1)\nreturn s.remove(n=2)", map[string]string{"s.make": "1", "s.remove": "1"}, "s.make", "s.remove")
	save("whole", "return s[params.t](n=1)", map[string]string{"s.make": "1"}, "s.*")
	save("unknown", "return s.make(n=1)", map[string]string{}, "s.make") // the server was down
	save("below", "return s.make(n=1)", nil, "s.make")
	below := list["below"]
	save("outer", "return tools.below()", map[string]string{"tools.below": below.Hash(), "s.make": "1"}, "tools.below", "s.make")
	save("stale", "return tools.below()", map[string]string{"tools.below": "other", "s.make": "1"}, "tools.below", "s.make")
	for _, c := range []struct {
		name, params, digests, calls, changed string
	}{
		{"first", `{}`, "s.make=1 s.remove=1", "make1 remove2", ""},
		{"first", `{}`, "s.make=1 s.remove=2", "", "s.remove has changed since saved tool \"first\""}, // before anything is called
		{"first", `{}`, "s.make=1", "make1 remove2", ""},                                              // of a server before the server lists the tool
		{"whole", `{"t":"make"}`, "s.make=1 s.remove=7", "make1", ""},
		{"whole", `{"t":"remove"}`, "s.make=1 s.remove=7", "", "s.remove was not known when"},
		{"whole", `{"t":"remove"}`, "s.make=2 s.remove=7", "", "s.make has changed"},
		{"unknown", `{}`, "s.make=1", "", "s.make was not known when"},
		{"outer", `{}`, "s.make=1", "make1", ""},
		{"outer", `{}`, "s.make=2", "", "s.make has changed since saved tool \"outer\""},
		{"stale", `{}`, "s.make=1", "", "tools.below has changed"},
	} {
		for _, mode := range []pins.Mode{pins.Off, pins.Warn, pins.Enforce} {
			now := pinned{mode, map[string]string{}}
			for _, f := range strings.Fields(c.digests) {
				target, digest, _ := strings.Cut(f, "=")
				now.digests[target] = digest
			}
			u := saga()
			var log strings.Builder
			composer := composer(sandboxtest.Guest(t), u, list.in, func(o *Options) {
				o.Definitions, o.Log = now, slog.New(slog.NewTextHandler(&log, nil))
			})
			call := func() string {
				reply := composer.CallSaved(t.Context(), list[c.name], route.Call{Params: params(c.params)})
				return strings.ReplaceAll(get(t, reply, "structuredContent", "error", "message"), `\"`, `"`)
			}
			message := call()
			if mode != pins.Enforce || c.changed == "" {
				if strings.Contains(message, "the definition of") || made(u) == "" {
					t.Errorf("%s, %s with %s: %s, calls %s", mode, c.name, c.digests, message, made(u))
				}
			} else if !strings.Contains(message, c.changed) || made(u) != "" {
				t.Errorf("%s, %s with %s: %s, calls %s", mode, c.name, c.digests, message, made(u))
			}
			call()
			warned := strings.Count(log.String(), "saved for another definition")
			if wants := mode == pins.Warn && c.changed != ""; (warned > 0) != wants || wants && warned > 2 {
				t.Errorf("%s, %s with %s: %d warnings", mode, c.name, c.digests, warned)
			}
		}
	}
	var none *tools.Permissions
	if (&permitted{Composer: composer(sandboxtest.Guest(t), saga())}).drifted(grant{"x", false, none}, "s", "make") != nil {
		t.Error("a tool without permissions has drifted")
	}
}

// TestUnseen runs imported tools with unseen definitions: the first run with a view of the
// definitions trusts them.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		mode        pins.Mode
		definitions map[string]string
		err         error
		looks       int
		refused     bool
	}{
		{pins.Enforce, nil, nil, 1, true},
		{pins.Enforce, map[string]string{}, nil, 1, true},
		{pins.Warn, nil, nil, 1, false},
		{pins.Off, nil, nil, 0, false},
		{pins.Enforce, nil, tools.ErrClosed, 4, false}, // at the start of each run, and for each call
	} {
		list := savedTools{}
		list.permit("first", "return s.make(n=1)", "s.make")
		p := list["first"].Permissions
		p.Definitions, p.Unseen = c.definitions, []string{"s.make"}
		now := pinned{c.mode, map[string]string{"s.make": "1"}}
		looks := 0
		u := saga()
		composer := composer(sandboxtest.Guest(t), u, list.in, func(o *Options) {
			o.Definitions = now
			o.See = func(_ string, p *tools.Permissions, server string) (*tools.Permissions, error) {
				if looks++; c.err != nil {
					return nil, c.err
				}
				seen := p.See(server, []string{"make"}, func(tool string) string { return now.digests["s."+tool] })
				*list["first"].Permissions = *seen
				return seen, nil
			}
		})
		call := func() string {
			reply := composer.CallSaved(t.Context(), list["first"], route.Call{Params: params(`{}`)})
			return get(t, reply, "structuredContent", "error", "message")
		}
		if message := call(); strings.Contains(message, "the definition of") || made(u) != "make1" {
			t.Errorf("%+v: %s, calls %s", c, message, made(u))
		}
		now.digests["s.make"] = "2"
		if refused := strings.Contains(call(), "s.make has changed since"); refused != c.refused || looks != c.looks {
			t.Errorf("%+v: refused %t, %d looks", c, refused, looks)
		}
	}
}
