package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/html"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestHTML(t *testing.T) {
	scripts := []string{
		`html.escape('<a href="x">&\'</a>')`,
		`html.escape('"', quote=False)`,
		"html.unescape('&lt;b&gt; &amp;amp; &eacute; &#233; &#xe9; &quot;')",
		"html.unescape('&nbsp;x')",
		"html.unescape('&unknown; &')",
		"html.unescape('&copy 2024 &lt')",
		"html.unescape('&#128512; &hellip;')",
		"html.unescape('&#x80;')",
		"html.unescape('plain')",
	}
	stdlibtest.Same(t, stdlibtest.Names(html.Module()), "import html", 0, scripts)
}

func TestHTMLHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(html.Module()), []stdlibtest.Case{
		{Script: "html.unescape('&#0;')", Want: "'�'"},
	})
}
