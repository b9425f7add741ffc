package re

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

var long = flag.Bool("long", false, "compare five times as many random patterns with Python")

// quote returns a text as a literal of Python and of Starlark.
func quote(s string) string { return strconv.Quote(s) }

func TestSameAsPython(t *testing.T) {
	env := stdlibtest.Names(Module())
	scripts := []string{
		`re.findall(r"\d+", "a1 b22 c333")`, `re.sub(r"\s+", " ", "a  b\t\nc")`, `re.split(r"[,;]\s*", "a, b;c ,d")`,
		`re.match(r"(\w+)@(\w+)\.com", "joe@example.com").groups()`, `re.search("x", "abc")`,
		`re.match(r"(?P<y>\d{4})-(?P<m>\d\d)", "2024-05-06").groupdict()`,
		`[m.span() for m in re.finditer(r"\b\w", "the quick brown")]`, `re.sub("x*", "-", "abxd")`,
		`re.sub(r"(\w+) (\w+)", r"\2 \1", "hello world")`, `re.sub(r"(?P<a>.)", r"<\g<a>\g<0>\g<1>>", "xyz")`,
		`re.subn("a", "b", "banana")`, `re.subn("a", "b", "banana", count=2)`, `re.sub("a", "b", "banana", 1)`,
		`re.sub(r"\d+", lambda m: str(int(m.group()) * 2), "1 22 333")`, `re.fullmatch("a|ab", "ab").group()`,
		`re.split("(a)(b)?", "xaybz")`, `re.split("x*", "axbc")`, `re.split("", "abc")`, `re.split(r"\W", "a b c d", maxsplit=2)`,
		`re.findall("(a)(b)?", "ab a")`, `re.findall("(a)|b", "ab")`, `re.compile(r"a+", re.I | re.M)`, `re.compile("a").pattern`,
		`re.compile("(?P<n>a)(b)").groupindex["n"]`, `re.compile("(a)(b)").groups`, `re.compile("(?i)a").flags`,
		`re.search("(?P<n>a)(b)?", "xa").lastindex`, `re.search("(?P<n>a)(b)?", "xa").lastgroup`, `re.search("((a)b)", "ab").lastindex`,
		`re.search("b", "abc")`, `re.search("(a)(?P<x>b)", "ab")["x"]`, `re.search("(a)", "ab")[2]`, `re.search("a", "a").group("x")`,
		`re.search("(a)|(b)", "b").groups()`, `re.search("(a)|(b)", "b").groups("-")`, `re.search("(a)|(b)", "b").span(1)`,
		`re.search("(.)(.)", "xy").group(1, 2, 0)`, `re.search("(a)(b)", "ab").expand(r"\2-\1\n")`,
		`re.search("é", "caf\u00e9 \u00e9").start()`, `[m.start() for m in re.finditer("é", "éaéb日é")]`,
		`re.compile("b").search("abcb", 2).span()`, `re.compile("^b").search("ab", 1)`, `re.compile("b$").search("ab", 0, 2).span()`, `re.compile("a").match("ba", 1).pos`,
		`re.compile("a").search("ba", -5, 100).endpos`, `re.escape("a.b*c [x]-#&~")`, `re.escape("h\u00e9 _1")`,
		`re.findall(r"(?<=\$)\d+(?!\d|%)", "$12 $13% 14")`, `re.findall(r"(?<!a)b", "ab cb b")`, `re.findall(r"(\w)\1", "aabbcd")`,
		`re.findall(r"(?:(a)|b)(?(1)c|d)", "ac bd ad bc")`, `re.findall(r"a{2,3}?", "aaaaa")`, `re.findall(r"a{,2}", "aaa")`, `re.findall("a{x}", "a{x}")`,
		`re.findall("(?>a+)a", "aaa")`, `re.findall("a++b", "aab")`, `re.findall("(?i:A)b", "ab aB AB Ab")`, `re.findall("(?s:.)", "a\nb")`,
		`re.findall("(?x) a b # c\n c", "abc")`, `re.findall("a.c", "a\nc", re.S)`, `re.findall("^a$", "a\na", re.MULTILINE)`, `re.findall("a$", "a\n")`,
		`re.findall(r"a\Z", "a\n")`, `re.findall(r"\w+", "naïve日本 x_1", re.A)`, `re.findall(r"\w+", "naïve日本 x_1²½٣")`, `re.findall(r"\d", "1٣²")`,
		`re.findall("[^a-c]", "abcd]e")`, `re.findall(r"[\w.-]+", "a.b-c d")`, `re.findall("[]a]", "]a")`, `re.findall("[a-]", "a-b")`, `re.findall(r"[\d-x]", "1-x")`,
		`re.findall("[K]", "kK\u212a", re.I)`, `re.findall("s", "s\u017fS", re.I)`, `re.findall("i", "iI\u0130\u0131", re.I)`, `re.findall("straße", "STRAßE", re.I)`, `re.findall("σ", "Σσς", re.I)`,
		`re.search("(a*)*", "aaa").group(1)`, `re.search("(a|b)*?c", "abac").groups()`, `re.search("((a)|b)*", "ab").groups()`, `re.search("(a?)*?$", "aa").span()`,
		`re.search("(?:a*?)*b", "aab").span()`, `re.search("(a*)+", "b").groups()`, `re.search("(|a)*", "aa").span()`, `re.search("(|a)+", "aa").groups()`, `re.search("(a|)+?b", "aab").groups()`,
		`re.search("(", "a")`, `re.search(")", "a")`, `re.search("*", "a")`, `re.search("a**", "a")`, `re.search("[a", "a")`, `re.search("[b-a]", "a")`, `re.search("(?P<1>a)", "a")`, `re.search("(?P<a>.)(?P<a>.)", "a")`,
		`re.search("a{3,2}", "a")`, `re.search(r"\q", "a")`, `re.search(r"\1", "a")`, `re.search(r"(\1)", "a")`, `re.search("(?<=a*)b", "a")`, `re.search("a(?i)", "a")`, `re.search("(?z)", "a")`, `re.search("\\", "a")`, `re.search("(?P=x)", "a")`,
		`re.search("(?(2)a)", "a")`, `re.search("(?", "a")`, `re.search("(?P", "a")`, `re.search("(?#", "a")`, `re.search("a+*", "a")`, `re.search("a++*", "a")`, `re.search("^*", "a")`, `re.search(r"\b+", "ab")`, `re.search("(?i-i:a)", "a")`, `re.search("(?-a:a)", "a")`, `re.search("(?au)a", "a")`,
		`re.search(r"\x4", "a")`, `re.search(r"\400", "a")`, `re.findall(r"\x41\u0042\103\0", "ABC\x00")`, `re.sub("a", r"\x", "a")`, `re.sub("a", r"\9", "a")`, `re.sub("a", r"\g<9>", "a")`, `re.sub("a", r"\g<x>", "a")`, `re.sub("a", r"\g<", "a")`, `re.sub("a", "\\", "a")`,
		`re.sub("a", r"\.\n\\\0\141", "a")`, `re.sub("(a)?b", r"[\1]", "b")`, `re.search("a", 1)`, `re.search(1, "a")`, `re.search("a", None)`, `re.sub("a", 1, "a")`, `re.sub("a", lambda m: 1, "a")`, `re.compile(re.compile("a"), re.I)`,
		`re.search()`, `re.search("a")`, `re.search("a", "b", 0, 1)`, `re.search("a", "b", x=1)`, `re.search(pattern="b", string="abc").span()`, `re.search("B", "abc", flags=re.I).span()`, `re.sub(pattern="a", repl="b", string="aa", count=1)`,
		`re.findall(r"\B", "ab c")`, `re.findall(r"\b", "ab c")`, `re.findall(r"\B", "")`, `re.findall("", "é日")`, `re.findall("a|b|cd|ce", "ceabcdx")`, `re.findall(r"(?m)^(\w+)\s*=\s*(.*?)$", "a = 1\nb=2 \n c = 3")`,
		"re.findall('<(\\\\w+)[^>]*>(.*?)</\\\\1>', '<b>x</b><i a=1>y</i>')", `re.search("a", "a").regs`, `re.search("(a)(b)?", "a").end(2)`, `bool(re.search("a", "a"))`,
		`re.findall(r"^#{1,6}\s+(.+)$", "# A\n## B c\ntext", re.M)`, `re.findall(r"\[([^\]]+)\]\(([^)]+)\)", "[a](b) [c d](e)")`,
		`re.match(r"^(?=.*[A-Z])(?=.*\d).{6,}$", "Passw0rd").span()`, `re.sub(r"(?<!^)(?=[A-Z])", "_", "camelCaseName")`, `re.sub(r"\B(?=(\d{3})+(?!\d))", ",", "1234567")`,
	}
	stdlibtest.Same(t, env, "import re", 0, scripts)
}

// generator makes random patterns and texts of few characters.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) pattern(depth int) string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(g.item(depth))
	}
	if g.IntN(6) == 0 {
		b.WriteString("|" + g.item(depth))
	}
	return b.String()
}

func (g generator) item(depth int) string {
	if depth <= 0 || g.IntN(2) == 0 {
		atom := g.pick("a", "b", "ab", ".", "[ab]", "[^a]", `\w`, `\d`, `\s`, "é", "[a-c]", `\W`, "1", " ")
		return atom + g.quantifier()
	}
	switch g.IntN(14) {
	case 0:
		return g.pick("^", "$", `\b`, `\B`, `\A`, `\Z`)
	case 1:
		return g.pick("(?=", "(?!") + g.pattern(depth-1) + ")"
	case 2:
		return g.pick("(?<=", "(?<!") + g.pick("a", "ab", "[ab]", `\w`, "é") + ")"
	case 3:
		return "(?:" + g.pattern(depth-1) + ")" + g.quantifier()
	case 4:
		return g.pick(`\1`, `\2`, "(?(1)a|b)", `\1?`)
	case 5:
		return "(?>" + g.pattern(depth-1) + ")"
	case 6:
		return "(?i:" + g.pattern(depth-1) + ")"
	}
	return "(" + g.pattern(depth-1) + ")" + g.quantifier()
}

func (g generator) quantifier() string {
	return g.pick("", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}?", "*+")
}

func TestRandomPatterns(t *testing.T) {
	n := 600
	if *long {
		n = 3000
	}
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var scripts []string
	for range n {
		p, text := g.pattern(3), ""
		for range g.IntN(9) {
			text += g.pick("a", "b", "é", "1", " ", "A", "c", "\n")
		}
		switch g.IntN(5) {
		case 0:
			scripts = append(scripts, fmt.Sprintf("re.findall(%s, %s)", quote(p), quote(text)))
		case 1:
			scripts = append(scripts, fmt.Sprintf("re.sub(%s, '-', %s)", quote(p), quote(text)))
		case 2:
			scripts = append(scripts, fmt.Sprintf("re.split(%s, %s)", quote(p), quote(text)))
		case 3:
			scripts = append(scripts, fmt.Sprintf("[m.regs for m in [re.fullmatch(%s, %s)] if m]", quote(p), quote(text)))
		default:
			scripts = append(scripts, fmt.Sprintf("[(m.regs, m.lastindex) for m in re.finditer(%s, %s, %s)]", quote(p), quote(text), g.pick("0", "re.I", "re.M", "re.S|re.A")))
		}
	}
	stdlibtest.Same(t, stdlibtest.Names(Module()), "import re", 0, scripts)
}

func TestHostile(t *testing.T) {
	for _, c := range []struct{ name, pattern, text string }{
		{"exponential", "(a+)+$", strings.Repeat("a", 40) + "b"},
		{"nested stars", "(?:(?:a*)*)*b", strings.Repeat("a", 60)},
		{"alternatives", "(a|a)*b", strings.Repeat("a", 60)},
		{"backreferences", `(a*)*\1b`, strings.Repeat("a", 60)},
		{"large counts", "(?:a{1000}){1000}", strings.Repeat("a", 3000)},
	} {
		p, err := Compile(c.pattern, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		found, err := NewSearcher(p, c.text, 2_000_000).Search(0)
		if found != nil || err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v, %v", c.name, found, err)
		}
	}
	deep := strings.Repeat("(?:", 10_000) + strings.Repeat(")", 10_000)
	for _, pattern := range []string{deep, strings.Repeat("(?(1)", 9000) + strings.Repeat(")", 9000), strings.Repeat("a", maxPattern+1), strings.Repeat("(a)", maxGroups+1)} {
		var bad *Error
		if _, err := Compile(pattern, 0); !errors.As(err, &bad) {
			t.Errorf("%.20s...: %v", pattern, err)
		}
	}
	// The stack is bounded.
	p, _ := Compile("(?:a|b|c)*d", 0)
	if _, err := NewSearcher(p, strings.Repeat("abc", maxStack), 0).MatchAt(0); !errors.Is(err, ErrLimit) {
		t.Errorf("long text: %v", err)
	}
	stdlibtest.Check(t, stdlibtest.Names(Module()), []stdlibtest.Case{
		{Script: `re.sub("", "y" * 1000000, "x" * 1000000)`, Want: "!memory"},
		{Script: `re.compile(b"a")`, Want: "!TypeError"},
		{Script: `re.Pattern()`, Want: "!TypeError"},
	})
}

func FuzzCompile(f *testing.F) {
	f.Add("(?P<a>b)*[^x]{2,3}?", "abx")
	f.Add(`(?<=a)(?(1)b|c)\1`, "ab")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := Compile(pattern, 0)
		if err != nil {
			return
		}
		_ = NewSearcher(p, text, 100_000).All(0, func(m *Match) (bool, error) {
			for i := 0; i < len(m.Spans); i += 2 {
				if m.Spans[i] > len(text) || m.Spans[i+1] > len(text) || m.Spans[i] > m.Spans[i+1] && m.Spans[i+1] >= 0 && i == 0 {
					t.Errorf("%q in %q: %v", pattern, text, m.Spans)
				}
			}
			return true, nil
		})
	})
}

func BenchmarkFindAll(b *testing.B) {
	p, err := Compile(`(\w+)@(\w+)\.com`, 0)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("some text before joe@example.com and after; ", 100)
	for b.Loop() {
		n := 0
		_ = NewSearcher(p, text, 0).All(0, func(*Match) (bool, error) { n++; return true, nil })
		if n != 100 {
			b.Fatal(n)
		}
	}
}
