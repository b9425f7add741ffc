package catalog

import (
	"net/url"
	"strings"
	"testing"
)

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
			if !template.matches(uri) {
				t.Errorf("%s does not match %s", tt.template, uri)
			}
		}
		for _, uri := range tt.no {
			if template.matches(uri) {
				t.Errorf("%s matches %s", tt.template, uri)
			}
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, text := range []string{"{", "x{}", "a}b", "{a", "{a}}", strings.Repeat("x", maxTemplate+1)} {
		template, err := parseTemplate(text)
		if err == nil || template.matches(text) || template.text != text {
			t.Errorf("%.20q: %v, matches itself: %v", text, err, template.matches(text))
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
		if len(uri) <= maxURI && template.pattern.MatchString(uri) != template.matches(uri) || len(uri) <= maxURI && !template.matches(uri) {
			t.Fatalf("%q does not match %q", template.text, uri)
		}
	})
}
