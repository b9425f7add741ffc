package modules_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/textwrap"
)

func TestTextwrap(t *testing.T) {
	scripts := []string{
		`textwrap.dedent('  a\n    b\n  c')`,
		`textwrap.dedent('\ta\n  b')`,
		`textwrap.dedent('  a\n \n  b\n')`,
		"textwrap.dedent('')",
		`textwrap.indent('a\n\nb', '  ')`,
		`textwrap.indent('a\n\nb', '> ', lambda l: True)`,
		"textwrap.indent('', 'x')",
		"textwrap.wrap('The quick brown fox jumps over the lazy dog', 20)",
		"textwrap.fill('The quick brown fox jumps over the lazy dog', width=15, initial_indent='* ', subsequent_indent='  ')",
		"textwrap.wrap('', 10)",
		"textwrap.wrap('a verylongwordindeed b', 6)",
		"textwrap.wrap('a verylongwordindeed b', 6, break_long_words=False)",
		"textwrap.wrap('well-known hyphen-ated words--and dashes', 10)",
		"textwrap.wrap('well-known hyphen-ated', 10, break_on_hyphens=False)",
		"textwrap.shorten('Hello  world and more', width=12)",
		"textwrap.shorten('Hello world', width=20)",
		"textwrap.shorten('Hello world', width=10, placeholder='...')",
		"textwrap.shorten('Hello', width=3)",
		"textwrap.wrap('a b c d e f', 3, max_lines=2)",
		"textwrap.wrap('a b', 0)",
		`textwrap.wrap('a\tb\n\nc  d', 8)`,
		"textwrap.wrap('a  b   c', 4, drop_whitespace=False)",
		"textwrap.wrap('é日本 ñandú', 5)",
		`textwrap.wrap('a\tb', 8, tabsize=2, expand_tabs=True)`,
		"textwrap.fill('x' * 25, 10)",
		"textwrap.wrap('foo-bar-baz-quux', 6)",
		`textwrap.wrap('a\nb', 5, replace_whitespace=False)`,
	}
	g := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"a", "word", "well-known", " ", "  ", "--", "\t", "\n", "longerword", "é", "x-y-z", ".", "'", "1-2", "-"}
	for range rounds(2000) {
		text := ""
		for range g.IntN(14) {
			text += pieces[g.IntN(len(pieces))]
			if g.IntN(2) == 0 {
				text += " "
			}
		}
		option := []string{"", ", max_lines=2", ", drop_whitespace=False", ", break_long_words=False", ", initial_indent='> '", ", break_on_hyphens=False", ", subsequent_indent=' '"}[g.IntN(7)]
		scripts = append(scripts, fmt.Sprintf("textwrap.wrap(%s, %d%s)", strconv.Quote(text), 3+g.IntN(20), option), fmt.Sprintf("textwrap.dedent(%s)", strconv.Quote(text)), fmt.Sprintf("textwrap.shorten(%s, %d)", strconv.Quote(text), 6+g.IntN(20)))
	}
	stdlibtest.Same(t, stdlibtest.Names(textwrap.Module()), "import textwrap", 0, scripts)
}

func TestTextwrapHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(textwrap.Module()), []stdlibtest.Case{
		{Script: "textwrap.wrap(' a', 1, initial_indent='> ')", Want: "['> a']"}, // Python goes on for ever
		{Script: "len(textwrap.wrap('x' * 100000, 1))", Want: "100000"},
		{Script: `textwrap.wrap('a\t' * 10, 5, tabsize=1 << 40)`, Want: "!ValueError"},
		{Script: "textwrap.wrap('a ' * 100000, 3, initial_indent='', subsequent_indent='x' * 100000)", Want: "!memory"},
	})
}
