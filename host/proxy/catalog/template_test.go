package catalog

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func matches(t template, uri string) bool { return newMatching(uri).matches(&t) }

func TestTemplateMatches(t *testing.T) {
	for _, tt := range []struct {
		template string
		yes, no  []string
	}{
		{"file:///{name}.txt", []string{"file:///a.txt", "file:///a%20b.txt", "file:///.txt"}, []string{"file:///a/b.txt", "file:///a.txtx", "xfile:///a.txt"}},
		{"file://{+path}", []string{"file:///a/b?c#d", "file://"}, []string{"http://x"}},
		{"db://t{/table*}{?limit,offset}", []string{"db://t", "db://t/a/b", "db://t/a?limit=1", "db://t?x"}, []string{"db://ta", "db://t/a#x"}},
		{"x:{a}{.ext}{;p}{&q}{#f}", []string{"x:1", "x:1.z;p=1&q=2#f", "x:1#/?"}, []string{"y:1", "x:1?q"}},
		{"a(b)*c[{v}]", []string{"a(b)*c[1]"}, []string{"ab*c[1]", "abbc1"}},
		{"plain", []string{"plain"}, []string{"plain2", ""}},
		{"two{a}-{b}", []string{"two1-2", "two-"}, []string{"two1"}},
	} {
		template, err := parseTemplate(tt.template)
		if err != nil {
			t.Fatalf("%s: %v", tt.template, err)
		}
		for _, uri := range tt.yes {
			if !matches(template, uri) {
				t.Errorf("%s does not match %s", tt.template, uri)
			}
		}
		for _, uri := range tt.no {
			if matches(template, uri) {
				t.Errorf("%s matches %s", tt.template, uri)
			}
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, text := range []string{"{", "x{}", "a}b", "{a", "{a}}", strings.Repeat("x", maxTemplate+1)} {
		template, err := parseTemplate(text)
		if err == nil || matches(template, text) || template.text != text {
			t.Errorf("%.20q: %v, matches itself: %v", text, err, matches(template, text))
		}
	}
}

// FuzzTemplate checks that a template of one variable matches its expansions.
func FuzzTemplate(f *testing.F) {
	f.Add("file:///", "", ".txt", "a b")
	f.Add("x://", "+", "", "/a/b?c")
	f.Add("x://", "/", "?", "seg")
	f.Fuzz(func(t *testing.T, before, operator, after, value string) {
		template, err := parseTemplate(before + "{" + operator + "v}" + after)
		if err != nil || operator != "" && operator != "+" && operator != "/" || strings.ContainsAny(before+after, "{}") {
			return
		}
		expanded := url.PathEscape(value)
		switch operator {
		case "+":
			expanded = value
		case "/":
			expanded = "/" + expanded
		}
		uri := before + expanded + after
		if len(uri) <= maxURI && template.pattern().MatchString(uri) != matches(template, uri) || len(uri) <= maxURI && !matches(template, uri) {
			t.Fatalf("%q does not match %q", template.text, uri)
		}
	})
}

// TestMatchingIsBounded checks that a server with very many slow templates delays no request,
// and keeps no other server from being found.
func TestMatchingIsBounded(t *testing.T) {
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	c := New([]Source{{Server: "hostile", Exposes: all, Hides: none}, {Server: "other", Exposes: all, Hides: none}},
		slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	var slow [][]byte
	for i := range 1_000 {
		slow = append(slow, fmt.Appendf(nil, `{"name":"x","uriTemplate":"{+a}%s%05d{b}z"}`, strings.Repeat("{+x}", 200), i))
	}
	c.SetUpstream("hostile", wire.Templates, slow, nil)
	c.SetUpstream("other", wire.Templates, [][]byte{[]byte(`{"name":"x","uriTemplate":"{+path}"}`)}, nil)
	uri := "file:///" + strings.Repeat("a/", 2000) + "-"
	if got := c.Matching(uri); !slices.Equal(got, []string{"other"}) {
		t.Errorf("%q have the URI", got)
	}
	if got := c.Matching("short00001z"); !slices.Equal(got, []string{"hostile", "other"}) {
		t.Errorf("%q have a short one", got)
	}
	if got := c.Matching("short00999z"); !slices.Equal(got, []string{"other"}) {
		t.Errorf("%q have a short one that the last of all templates matches", got)
	}
	m := newMatching(uri)
	for range 10 {
		hard, err := parseTemplate(strings.Repeat("{+x}", 800) + "z")
		if hard.server = "hostile"; err != nil || m.matches(&hard) || m.left["hostile"] < 0 {
			t.Fatalf("%v, %d steps are left, over %t", err, m.left["hostile"], m.over)
		}
	}
	if !m.over {
		t.Error("ten slow templates are not too much")
	}
}
