package report

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"
)

// TestPageIsSealed checks that only the page's own script may run, that it loads nothing, and
// that no text of others is markup.
func TestPageIsSealed(t *testing.T) {
	page := render(t, "html", Options{}, sample(t))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	_, script, _ := strings.Cut(page, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	if want := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; policy == nil || !strings.HasSuffix(html.UnescapeString(policy[1]), want) {
		t.Errorf("policy %q, want %s", policy, want)
	}
	if strings.Count(page, "<script") != 1 || len(script) < 100 {
		t.Error("there is not one script")
	}
	if i := strings.Index(page, "<b>&"); i >= 0 {
		t.Errorf("text is markup: %s", page[i:i+80])
	}
	for _, loads := range []string{"src=", "href=", "url(", "@import", "http://", "https://", " onclick", "fetch("} {
		if strings.Contains(page, loads) {
			t.Errorf("the page has %q", loads)
		}
	}
}

// TestPageShowsEverything checks that what the other formats say is in the page.
func TestPageShowsEverything(t *testing.T) {
	page := render(t, "html", Options{}, sample(t))
	for _, want := range []string{
		"8 checks in 4 files: 2 passed", "expect.result at $.open: other value", `class="del">-  &#34;open&#34;: 3`,
		"3 attempts", "12,345,678 units of fuel", "github.search", "page 1", "setup:", "does not match --filter", "The file could not be run.",
		"coverage of tools: 2 of 4 (50%), and 80% is required", "not called", "2025-11-25", "smoke.snapshots/old.json", "The file has no checks to run.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}
