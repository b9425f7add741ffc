package bearer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestFind(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tokens := []Token{{Digest: DigestOf("one"), Name: "a"}, {Digest: DigestOf("two"), Name: "b", Expires: now}, {Digest: DigestOf("")}}
	for header, want := range map[string]string{
		"Bearer one": "a", "bearer  one ": "a", "BEARER two": "b", "Bearer three": "", "Basic one": "", "one": "", "": "", "Bearer": "",
	} {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		got := ""
		if found := Find(tokens[:2], r); found != nil {
			got = found.Name
		}
		if got != want {
			t.Errorf("%q finds %q, want %q", header, got, want)
		}
	}
	if !tokens[1].Expired(now) || tokens[1].Expired(now.Add(-1)) || tokens[0].Expired(now) {
		t.Error("a token expires at another time than it says")
	}
	if (Digest{}).Principal() != "" || DigestOf("one").Principal() == DigestOf("two").Principal() || strings.Contains(DigestOf("one").Principal(), DigestOf("one").String()[:8]) {
		t.Error("principals")
	}
}

func TestParseDigest(t *testing.T) {
	d := DigestOf("one")
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseDigest(strings.ToUpper(d.String())); err != nil || got != d {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "00", d.String() + "00", d.String()[1:] + "g", strings.Repeat("0", 64), DigestOf("").String()} {
		if _, err := ParseDigest(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestRights(t *testing.T) {
	r := &Rights{Expose: []string{"github.get_*", "files.*", "builtin.search_tools"}, Hide: []string{"files.write", "db.*", "files.file:///secret/*"}}
	for target, want := range map[string][2]bool{ // shown, hidden
		"github.get_issue": {true, false}, "github.merge": {false, false}, "files.read": {true, false}, "files.write": {false, true},
		"db.x": {false, true}, "builtin.search_tools": {true, false}, "builtin.save_tool": {false, false}, "tools.x": {false, false},
	} {
		server, name, _ := strings.Cut(target, ".")
		if got := [2]bool{r.Shows(server, name), r.Hides(server, name)}; got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	if !r.HidesServer("db") || r.HidesServer("files") || (*Rights)(nil).HidesServer("db") || !Nothing.HidesServer("x") || Nothing.Shows("x", "y") || !Nothing.Hides("x", "y") {
		t.Error("hidden servers")
	}
	for uri, want := range map[string]bool{
		"file:///public/a": true, "file:///secret/a": false, "file:///public/../secret/a": false, "file:///public/%2e%2e/secret/a": false,
		"file:///%73ecret/a": false, "FILE:///secret/a": false, "file://///secret/a": false, "file:///./secret/a": false, "file:///%2573ecret/a": false,
		"file:///%73ecret/a#%": false, "file:///public/../secret/a?/../../public/b": false, "file:/secret/a": false, "file://localhost/secret/a": false,
		" file:///sec\nret/a":        false,
		`file:///public\..\secret\a`: false, "file:///secret": true, "file:///secrets/a": true, "file:///": true, "mailto:x": true, "": true, "%zz": true,
	} {
		if got := r.ShowsResource("files", uri); got != want {
			t.Errorf("%s: shown %t", uri, got)
		}
		if got := r.HidesResource("files", uri); got == want {
			t.Errorf("%s: hidden %t", uri, got)
		}
	}
	public := &Rights{Expose: []string{"files.file:///public/*"}}
	for uri, want := range map[string]bool{"file:///public/a": true, "file:///public/../secret": false, "file:///public/%2e%2e/secret": false, "file:///public/a/": true, "file:///public/a?q=1": true, "file:///public/../secret?/../../public/b": false} {
		if got := public.ShowsResource("files", uri); got != want {
			t.Errorf("%s: shown %t", uri, got)
		}
	}
	views := map[string]bool{}
	for _, one := range []*Rights{nil, {}, {NoSave: true}, {Own: "a"}, {Own: "b"}, {Hide: []string{"a"}}, {Expose: []string{"a"}}, {Hide: []string{"a", "b"}}, {Hide: []string{"ab"}}, Nothing} {
		views[one.View()] = true
	}
	if len(views) != 8 { // the first three see the same
		t.Errorf("%d views: %v", len(views), views)
	}
}

// FuzzForms checks that a URI is its own form, and that more forms never show more.
func FuzzForms(f *testing.F) {
	f.Add("file:///a/%2e%2e/b", "*/b")
	f.Add("HTTP://h\\x", "http*")
	f.Fuzz(func(t *testing.T, uri, pattern string) {
		if len(uri) > 200 || len(pattern) > 20 {
			return
		}
		if forms, bare := wire.URIForms(uri); forms[0] != uri || len(forms)+len(bare) > 120 {
			t.Fatalf("%q, %q", forms, bare)
		}
		hide, expose := &Rights{Hide: []string{pattern}}, &Rights{Expose: []string{pattern}}
		matched := glob.Match(pattern, "s."+uri)
		if matched && hide.ShowsResource("s", uri) || !matched && expose.ShowsResource("s", uri) {
			t.Errorf("%q and %q", uri, pattern)
		}
	})
}
