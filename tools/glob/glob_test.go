package glob

import (
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"github.*", "github.get_issue", true}, {"github.*", "github.a/b.c", true}, {"github.*", "github", false},
		{"github.*", "GitHub.get_issue", false}, {"*", "", true}, {"*", "a/b", true}, {"a/?", "a/b", true}, {"a?b", "a/b", true},
		{"[a-c].x", "b.x", true}, {"[^a].x", "a.x", false}, {`a\*`, "a*", true}, {`a\*`, "ab", false}, {"[", "[", false},
		{"files.file:///public/*", "files.file:///public/a/b", true}, {"a/b", "a\x01b", false}, {"a?b", "a\x01b", true},
		{"*.ü?", "x.üß", true},
		{"a\x01b", "a\x01b", true}, {"a\x01/*", "a\x01/b", true}, {"a/\x01\ue000", "a/\x01/", false}, {"*/\x01", "a/b/\x01", true},
		{"a\x01b", "a\x02b", false}, {"a/", "a\x01", false}, {"a/\x01", "a\x01/", false}, {"*", "/\x01\x02\ue000", true},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %t", c.pattern, c.name, got)
		}
		if got := Any([]string{"nothing", c.pattern}, c.name); got != c.want {
			t.Errorf("Any(%q, %q) = %t", c.pattern, c.name, got)
		}
	}
	for pattern, want := range map[string]bool{"": false, "[": false, `\`: false, "a\x01": true, "*": true, "a.b": true} {
		if Valid(pattern) != want {
			t.Errorf("Valid(%q) = %t", pattern, !want)
		}
	}
}

func TestCoversAll(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*": true, "github.*": true, "git*": true, "git*.*": true, "[a-z]*": true, "?*": true, "github.g*": false,
		"github.": false, "gitlab.*": false, `github.\*`: false, "": false, "*.get": false, "**": true, "github.**": true,
	} {
		if got := CoversAll([]string{"x", pattern}, "github."); got != want {
			t.Errorf("CoversAll(%q) = %t", pattern, got)
		}
	}
}

// FuzzCoversAll checks that what is covered is matched.
func FuzzCoversAll(f *testing.F) {
	f.Add("git*", "github.", "x")
	f.Add(`a\*`, "a", "*")
	f.Add("[a*", "[a", "")
	f.Fuzz(func(t *testing.T, pattern, prefix, rest string) {
		if len(pattern)+len(prefix)+len(rest) > 200 || strings.Count(pattern, "*") > 10 {
			return
		}
		if Valid(pattern) && CoversAll([]string{pattern}, prefix) && !Match(pattern, prefix+rest) {
			t.Errorf("%q covers %q but does not match it with %q", pattern, prefix, rest)
		}
	})
}
