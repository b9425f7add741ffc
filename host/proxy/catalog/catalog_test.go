package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func definitions(names ...string) (raw [][]byte) {
	for _, n := range names {
		raw = append(raw, fmt.Appendf(nil, `{"x-unknown":9007199254740993,"name":%q,"inputSchema":{"type":"object","$ref":"#/definitions/a"}}`, n))
	}
	return raw
}

// names returns the names, or URIs, of a page.
func names(p Page) (all []string) {
	for _, raw := range p.Items {
		for _, surface := range []wire.Surface{wire.Resources, wire.Templates, wire.Tools} {
			if key, ok := wire.GetString(raw, surface.Key()); ok {
				all = append(all, key)
				break
			}
		}
	}
	return all
}

func testCatalog(t *testing.T) (*Catalog, *atomic.Int64) {
	var changes atomic.Int64
	c := New([]Source{
		{Server: "git-hub", Prefix: "git-hub__",
			Exposes: func(tool string) bool { return strings.HasPrefix(tool, "get_") || strings.HasPrefix(tool, "list-") },
			Hides:   func(tool string) bool { return strings.HasSuffix(tool, "_secret") }},
		{Server: "files", Prefix: "",
			Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }},
	}, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) { changes.Add(1) })
	c.SetBuiltins([]Entry{{Name: "save_tool", Definition: []byte(`{"name":"save_tool"}`)}})
	c.SetComposites([]Entry{{Name: "mine", Definition: []byte(`{"name":"mine","inputSchema":{"type":"object"}}`)}})
	c.SetUpstream("git-hub", wire.Tools, definitions("get_issue", "create_issue", "get_secret", "list-repos", "list_repos"), nil)
	c.SetUpstream("files", wire.Tools, definitions("write", "save_tool", "read"), nil)
	return c, &changes
}

func TestListOrderAndDefinitions(t *testing.T) {
	c, _ := testCatalog(t)
	want := []string{"save_tool", "mine", "git-hub__get_issue", "git-hub__list-repos", "read", "write"}
	if got := c.Visible(wire.Tools); !slices.Equal(got, want) {
		t.Fatalf("names = %q\nwant %q", got, want)
	}
	e, ok := c.Tool("git-hub__get_issue")
	if !ok || e.Kind != Proxied || e.Server != "git-hub" || e.Tool != "get_issue" {
		t.Errorf("entry = %+v", e)
	}
	if got := string(e.Definition); got != `{"x-unknown":9007199254740993,"name":"git-hub__get_issue","inputSchema":{"type":"object","$ref":"#/definitions/a"}}` {
		t.Errorf("definition = %s", got)
	}
	for _, hidden := range []string{"git-hub__create_issue", "git-hub__get_secret", "nope"} {
		if _, ok := c.Tool(hidden); ok {
			t.Errorf("agents see %s", hidden)
		}
	}
	if owner, ok := c.Owner("git-hub__create_issue"); !ok || owner.Describe() != `tool "create_issue" of upstream "git-hub"` {
		t.Errorf("owner = %+v", owner)
	}
}

func TestProblems(t *testing.T) {
	c, _ := testCatalog(t)
	all := fmt.Sprint(c.Problems())
	for _, want := range []string{
		`tool name "save_tool": the built-in tool hides tool "save_tool" of upstream "files"`,
		`tools of server "git-hub" share the script name "list_repos" (in scripts, write git_hub["list-repos"] or git_hub["list_repos"]`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("problems lack %q:\n%s", want, all)
		}
	}
}

func TestPages(t *testing.T) {
	c, _ := testCatalog(t)
	all := c.Visible(wire.Tools)
	for limit := 1; limit <= len(all)+1; limit++ {
		var got []string
		cursor := ""
		for range all {
			page, err := c.Page(wire.Tools, cursor, limit)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, names(page)...)
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	before, _ := c.Page(wire.Tools, "", 3)
	c.SetUpstream("git-hub", wire.Tools, definitions("get_a", "get_z"), nil) // the last tool of the page is removed
	page, err := c.Page(wire.Tools, before.Next, 10)
	if got := names(page); err != nil || len(got) != 3 || got[0] != "git-hub__get_z" {
		t.Errorf("after a change: %q, %v", got, err)
	}
	for _, bad := range []string{"x", "!!", encodeCursor(-1, "a"), "MTIz"} {
		if _, err := c.Page(wire.Tools, bad, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("Page(%q): %v", bad, err)
		}
	}
}

func TestOnChangeOnlyWhenAgentsSeeIt(t *testing.T) {
	c, changes := testCatalog(t)
	before := changes.Load()
	c.SetUpstream("files", wire.Tools, definitions("read", "save_tool", "write"), nil) // another order
	c.SetUpstream("git-hub", wire.Tools, definitions("get_issue", "list-repos", "list_repos", "unseen"), nil)
	if n := changes.Load(); n != before {
		t.Errorf("%d changes announced, want none", n-before)
	}
	c.SetUpstream("files", wire.Tools, definitions("read"), nil)
	if n := changes.Load(); n != before+1 {
		t.Errorf("%d changes announced, want one", n-before)
	}
}

func TestResolve(t *testing.T) {
	c, _ := testCatalog(t)
	for _, tt := range []struct {
		server, tool string
		exact        bool
		want         string
	}{
		{"git_hub", "get_issue", false, "git-hub/get_issue"},
		{"git_hub", "create_issue", false, "git-hub/create_issue"}, // not exposed, but scripts may call it
		{"git_hub", "list-repos", true, "git-hub/list-repos"},
		{"git_hub", "list_repos", true, "git-hub/list_repos"},
		{"files", "read", true, "files/read"},
	} {
		s, tool, err := c.Resolve(tt.server, tt.tool, tt.exact)
		if s+"/"+tool != tt.want || err != nil {
			t.Errorf("Resolve(%q, %q, %v) = %s/%s, %v", tt.server, tt.tool, tt.exact, s, tool, err)
		}
	}
	var notFound *NotFoundError
	if _, _, err := c.Resolve("git_hub", "get_isue", false); !errors.As(err, &notFound) ||
		err.Error() != `server "git-hub" has no tool "get_isue" (did you mean get_issue?)` {
		t.Errorf("misspelt tool: %v", err)
	}
	if _, _, err := c.Resolve("github", "x", false); !errors.As(err, &notFound) || notFound.Kind != "server" {
		t.Errorf("misspelt server: %v", err)
	}
	var ambiguous *AmbiguousError
	if _, _, err := c.Resolve("git_hub", "list_repos", false); !errors.As(err, &ambiguous) {
		t.Errorf("ambiguous: %v", err)
	}
	var hidden *HiddenError
	for _, exact := range []bool{true, false} {
		if _, _, err := c.Resolve("git_hub", "get_secret", exact); !errors.As(err, &hidden) {
			t.Errorf("hidden: %v", err)
		}
	}
	if got := c.Servers(); !slices.Equal(got, []string{"git_hub", "files"}) {
		t.Errorf("servers = %q", got)
	}
}

func TestPermitted(t *testing.T) {
	c, _ := testCatalog(t)
	var hidden *HiddenError
	var removed *RemovedError
	for _, tt := range []struct {
		server, tool string
		agent        bool
		want         any
	}{
		{"git-hub", "get_issue", true, nil}, {"git-hub", "not_listed_yet", false, nil},
		{"git-hub", "create_issue", false, nil}, {"git-hub", "create_issue", true, &hidden},
		{"git-hub", "get_secret", false, &hidden}, {"git-hub", "not_listed_secret", false, &hidden},
		{"git_hub", "get_issue", false, &removed},
	} {
		err := c.Permitted(tt.server, tt.tool, tt.agent)
		if (err == nil) != (tt.want == nil) || err != nil && !errors.As(err, tt.want) {
			t.Errorf("Permitted(%q, %q, %v): %v", tt.server, tt.tool, tt.agent, err)
		}
	}
	c.SetSources(nil)
	if err := c.Permitted("git-hub", "get_issue", false); !errors.As(err, &removed) {
		t.Errorf("of a server that was removed: %v", err)
	}
}

func TestPublicName(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, tt := range []struct{ prefix, tool, want string }{
		{"a__", "get-sum", "a__get-sum"},
		{"", "a.b/c", "a_b_c_" + hash("a.b/c")},
		{"", strings.Repeat("y", 64), strings.Repeat("y", 64)},
		{"p__", long, "p__" + strings.Repeat("x", 52) + "_" + hash("p__"+long)},
		{"", "", "_" + hash("")},
	} {
		if got := PublicName(tt.prefix, tt.tool); got != tt.want || len(got) > maxName {
			t.Errorf("PublicName(%q, %q) = %q, want %q", tt.prefix, tt.tool, got, tt.want)
		}
	}
	if PublicName("", "a.b") == PublicName("", "a/b") {
		t.Error("two tools, one name")
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

func TestConcurrentUse(t *testing.T) {
	c, _ := testCatalog(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 50 {
				c.SetUpstream("files", wire.Tools, definitions(fmt.Sprint("t", i, "_", n)), nil)
				page, err := c.Page(wire.Tools, "", 100)
				if err != nil || len(page.Items) != 5 {
					t.Errorf("page of %d, %v", len(page.Items), err)
				}
			}
		}()
	}
	wg.Wait()
}

func FuzzPage(f *testing.F) {
	f.Add("MTp4", 3)
	f.Fuzz(func(t *testing.T, cursor string, limit int) {
		if limit < 1 || limit > 100 {
			return
		}
		c, _ := testCatalog(t)
		page, err := c.Page(wire.Tools, cursor, limit)
		if err != nil && !errors.Is(err, ErrCursor) || len(page.Items) > limit {
			t.Fatalf("%d tools, %v", len(page.Items), err)
		}
	})
}

// TestSetSources checks that upstreams keep their lists under their new names, and that
// onChange is called for changes that clients see.
func TestSetSources(t *testing.T) {
	var told []wire.Surface
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	a := Source{Server: "a", Prefix: "a__", Exposes: all, Hides: none}
	b := Source{Server: "b", Prefix: "b__", Exposes: all, Hides: none}
	c := New([]Source{a, b}, slog.New(slog.DiscardHandler), func(_ *Scope, s wire.Surface, _ []byte) { told = append(told, s) })
	c.SetUpstream("a", wire.Tools, definitions("x", "y"), nil)
	c.SetUpstream("a", wire.Prompts, definitions("p"), nil)
	c.SetUpstream("b", wire.Tools, definitions("z"), nil)
	c.SetUpstream("b", wire.Resources, [][]byte{[]byte(`{"uri":"file:///1"}`)}, []byte(`{"n":1}`))

	renamed, narrow := a, a
	renamed.Prefix = "new_"
	narrow.Prefix, narrow.Exposes, narrow.Hides = "new_", none, func(tool string) bool { return tool == "x" }
	for _, tt := range []struct {
		name    string
		sources []Source
		tools   string
		told    []wire.Surface
	}{
		{"as before", []Source{a, b}, "a__x a__y b__z", nil},
		{"another order", []Source{b, a}, "b__z a__x a__y", []wire.Surface{wire.Tools}},
		{"another prefix", []Source{b, renamed}, "b__z new_x new_y", []wire.Surface{wire.Tools, wire.Prompts}},
		{"fewer shown", []Source{b, narrow}, "b__z", []wire.Surface{wire.Tools}},
		{"one removed, one added", []Source{a, {Server: "c", Exposes: all, Hides: none}}, "a__x a__y", []wire.Surface{wire.Tools, wire.Resources, wire.Prompts}},
		{"added again, with nothing", []Source{a, b}, "a__x a__y", nil},
	} {
		told = nil
		c.SetSources(tt.sources)
		if got := strings.Join(c.Visible(wire.Tools), " "); got != tt.tools {
			t.Errorf("%s: tools %q, want %q", tt.name, got, tt.tools)
		}
		if !slices.Equal(told, tt.told) {
			t.Errorf("%s: told of %v, want %v", tt.name, told, tt.told)
		}
	}
	e, _ := c.Tool("a__x")
	if want := strings.Replace(string(definitions("x")[0]), `"x"`, `"a__x"`, 1); string(e.Definition) != want {
		t.Errorf("definition %s, want %s", e.Definition, want)
	}
	c.SetSources([]Source{b, narrow})
	var hidden *HiddenError
	if _, _, err := c.Resolve("a", "x", true); !errors.As(err, &hidden) {
		t.Errorf("a script may call it: %v", err)
	}
	if server, own, ok := c.Prompt("new_p"); !ok || server != "a" || own != "p" {
		t.Errorf("prompt: %s %s %t", server, own, ok)
	}
	var missing *NotFoundError
	c.SetSources([]Source{b})
	if _, _, err := c.Resolve("a", "y", true); !errors.As(err, &missing) || missing.Kind != "server" {
		t.Errorf("a script knows a server that was removed: %v", err)
	}
}

// TestPagesAreBounded checks that a page of large definitions ends early, and that following the
// cursors gives all of them.
func TestPagesAreBounded(t *testing.T) {
	c := New([]Source{{Server: "x", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }}}, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	var items [][]byte
	for i, size := range []int{pageBytes / 2, pageBytes / 3, pageBytes / 3, 2 * pageBytes, 10, 10} {
		items = append(items, fmt.Appendf(nil, `{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("x", size)))
	}
	c.SetUpstream("x", wire.Tools, items, nil)
	var pages []int
	for cursor := ""; ; {
		p, err := c.Page(wire.Tools, cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, len(p.Items))
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if fmt.Sprint(pages) != "[2 1 1 2]" {
		t.Errorf("pages of %v", pages)
	}
}

// TestPagesAreShared checks that all sessions are given the same bytes: neither pages nor the
// lists of clients with other rights are copies.
func TestPagesAreShared(t *testing.T) {
	c := New([]Source{{Server: "x", Prefix: "x__", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }}}, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	c.SetUpstream("x", wire.Tools, [][]byte{[]byte(`{"name":"a","inputSchema":{"type":"object"}}`), []byte(`{"name":"b","inputSchema":{"type":"object"}}`)}, nil)
	few := (&bearer.Rights{Expose: []string{"x.b"}}).Prepared()
	c.Narrow([]*bearer.Rights{few})
	page := func(s *Scope) Page {
		p, err := s.Page(wire.Tools, "", 1000)
		if err != nil || len(p.Items) == 0 {
			t.Fatalf("%d items, %v", len(p.Items), err)
		}
		return p
	}
	first, again, narrowed := page(c.For(nil)), page(c.For(nil)), page(c.For(few))
	if c.For(few) != c.For((&bearer.Rights{Expose: []string{"x.b"}}).Prepared()) {
		t.Error("clients with the same rights have scopes of their own")
	}
	for _, same := range [][2][]byte{
		{first.Items[0], again.Items[0]}, {first.Handshake[0], again.Handshake[0]},
		{first.Items[1], narrowed.Items[0]}, {first.Handshake[1], narrowed.Handshake[0]},
	} {
		if &same[0][0] != &same[1][0] {
			t.Errorf("%s is a copy", same[1])
		}
	}
}
