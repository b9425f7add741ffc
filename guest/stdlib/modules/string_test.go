package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	pystring "github.com/mcp-metatool/mcp-metatool/guest/stdlib/string"
)

func TestString(t *testing.T) {
	scripts := []string{
		"string.ascii_letters",
		"string.digits",
		"string.hexdigits",
		"string.octdigits",
		"string.punctuation",
		"string.printable",
		"string.whitespace",
		"string.capwords('hello  big WORLD')",
		"string.capwords('a-b-c', '-')",
		"string.capwords('a', '')",
		"string.Template('$a and ${b} $$').substitute(a=1, b='x')",
		"string.Template('$a $b').substitute({'a': 1}, b=2)",
		"string.Template('$a').substitute()",
		"string.Template('$a $').safe_substitute()",
		"string.Template('$a $ x').substitute(a=1)",
		"string.Template('${a').safe_substitute(a=1)",
		"string.Template('$a1_b$c').safe_substitute(a1_b=3)",
		"string.Template('x').template",
		"string.Template('${a-b} $1').safe_substitute(a=1)",
		"string.Template('${').substitute()",
		"string.Template('$').substitute()",
	}
	stdlibtest.Same(t, stdlibtest.Names(pystring.Module()), "import string", 0, scripts)
}

func TestStringHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(pystring.Module()), []stdlibtest.Case{
		{Script: "string.Template('$a' * 100000).substitute(a='x' * 10000)", Want: "!memory"},
	})
}
