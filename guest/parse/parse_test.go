package parse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"go.starlark.net/syntax"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func noExports(string) []string { return nil }

// scripts are those of the tests of the interpreter.
func scripts(t testing.TB) (out []string) {
	paths, err := filepath.Glob("../interp/testdata/*.txtar")
	more, err2 := filepath.Glob("../interp/testdata/python/*.txtar")
	if err != nil || err2 != nil || len(paths) == 0 {
		t.Fatal(paths, err, err2)
	}
	for _, path := range append(paths, more...) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, ".star") || strings.HasSuffix(f.Name, ".py") {
				out = append(out, string(f.Data))
			}
		}
	}
	stars, _ := filepath.Glob("../../docs/patterns/*.star")
	for _, path := range stars {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

// TestAgreesWithTheLibrary checks that what the library's parser accepts has the same
// tree here, with the same positions.
func TestAgreesWithTheLibrary(t *testing.T) {
	agreed := 0
	for _, code := range scripts(t) {
		if agree(t, code) {
			agreed++
		}
	}
	if agreed < 250 {
		t.Errorf("the library accepts only %d of the scripts", agreed)
	}
}

// agree compares the trees of a script, if the library accepts it and it has nothing
// that means something else here.
func agree(t *testing.T, code string) bool {
	t.Helper()
	want, err := options.Parse("t", code, 0)
	if err != nil || strings.ContainsRune(code, '\\') || strings.Contains(code, "load(") || strings.Contains(code, "assert") || strings.Contains(code, "super") {
		return false
	}
	got, errs := Script("t", code, noExports)
	if len(errs) > 0 {
		t.Errorf("%q: %v", code, errs[0].Error)
		return false
	}
	g, w := dump(got.Stmts), dump(want.Stmts)
	if strings.Contains(g, Hidden) {
		return false // what only the library's compiler refuses
	}
	if g != w {
		t.Errorf("%q:\ngot  %s\nwant %s", code, g, w)
	}
	return true
}

// dump shows statements with the positions of their nodes.
func dump(stmts []syntax.Stmt) string {
	var b strings.Builder
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if n == nil {
				b.WriteString(")")
				return true
			}
			start, _ := n.Span()
			fmt.Fprintf(&b, "(%T %d:%d", n, start.Line, start.Col)
			switch n := n.(type) {
			case *syntax.Ident:
				b.WriteString(" " + n.Name)
			case *syntax.Literal:
				fmt.Fprintf(&b, " %v %v", n.Token, n.Value)
			case *syntax.BinaryExpr:
				fmt.Fprintf(&b, " %v %d:%d", n.Op, n.OpPos.Line, n.OpPos.Col)
			case *syntax.UnaryExpr:
				fmt.Fprintf(&b, " %v", n.Op)
			case *syntax.AssignStmt:
				fmt.Fprintf(&b, " %v", n.Op)
			case *syntax.BranchStmt:
				fmt.Fprintf(&b, " %v", n.Token)
			case *syntax.Comprehension:
				fmt.Fprintf(&b, " %v", n.Curly)
			}
			return true
		})
	}
	return b.String()
}

// TestErrors checks that the parser finds all errors, and where.
func TestErrors(t *testing.T) {
	for code, want := range map[string]string{
		"x = 1\n":                               "",
		"x = = 1\ny = 2\nz = = 3\n":             "1:5 3:5",
		"if x\n    y = 1\nz = )\n":              "2:1 3:5",
		"def f(:\n    return 1\n\nx = (\n":      "1:8 5:1",
		"def f():\n    a b\n    c d\n":          "2:8 3:8",
		"for x in [1:\n    pass\ny = 1\n":       "1:13",
		"try:\n    x = 1\ny = 2\n":              "1:1",
		"class A\n    def f(self): pass\nx y\n": "2:1 3:4",
		"x = 'abc\ny = $\n":                     "1:5 2:5",
		"if 1:\n    x = (\nelse:\n    y = 1\n":  "3:1",
		"  x = 1\n y = 2\n":                     "2:2",
		"x = f'{a b}' + f'{'\n":                 "1:11",
		"else:\n    pass\nx = = 2\n":            "1:1 3:5",
		"import a.b as c, d\nfrom . import x\n": "2:7",
		"lambda x: yield x\n":                   "1:11",
		"x: int y\n":                            "1:9",
	} {
		_, errs := Script("t", code, noExports)
		var got []string
		for _, e := range errs {
			got = append(got, fmt.Sprintf("%d:%d", e.Pos.Line, e.Pos.Col))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: errors at %s, want %s: %v", code, got, want, errs)
		}
	}
}

// TestDeepNesting checks that no source makes the parser use up its stack.
func TestDeepNesting(t *testing.T) {
	const n = 100_000
	for _, code := range []string{
		strings.Repeat("(", n), strings.Repeat("[", n), strings.Repeat("{", n), strings.Repeat("-", n) + "1", strings.Repeat("not ", n) + "1",
		"1" + strings.Repeat("**1", n), strings.Repeat("lambda: ", n) + "1", strings.Repeat("1 if 1 else ", n) + "1", strings.Repeat("f(", n),
		"x" + strings.Repeat(" = x", n), "x" + strings.Repeat(" < x", n), strings.Repeat("@x\n", n), "del " + strings.Repeat("(", n),
		strings.Repeat("(x := ", n), strings.Repeat("*", n), "f'" + strings.Repeat("{", n), "[" + strings.Repeat("x for x in ", n),
	} {
		if _, errs := Script("t", code, noExports); len(errs) > maxErrors+1 {
			t.Errorf("%.20q: %d errors", code, len(errs))
		}
	}
}

// FuzzScript checks that no source makes the parser panic, that errors have positions in
// it, and that the library's trees are also ours.
func FuzzScript(f *testing.F) {
	for _, code := range scripts(f) {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		_, errs := Script("t", code, noExports)
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(code, "\r\n", "\n"), "\r", "\n"), "\n")
		for _, e := range errs {
			line, col := int(e.Pos.Line), int(e.Pos.Col)
			if line < 1 || line > len(lines) || col < 1 || col > utf8.RuneCountInString(lines[line-1])+1 {
				t.Fatalf("%q: %d:%d: %s", code, line, col, e.Msg)
			}
			if strings.HasPrefix(e.Msg, "internal error") {
				t.Fatalf("%q: %s", code, e.Msg)
			}
		}
		if !strings.ContainsAny(code, "\x00\r") && utf8.ValidString(code) {
			agree(t, code)
		}
	})
}

// FuzzFString checks that any literal is skipped correctly, and that the positions of
// its parts are right.
func FuzzFString(f *testing.F) {
	for _, s := range []string{`f"a{b!r:>{c}}{{"`, `rf"""{x["a"]}`, `f'{'`, `f"{f"{x=}"}"`, "f'{a}\n{b}'", `f"\{"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		prefix := strings.IndexAny(s, `"'`)
		if prefix < 0 {
			return
		}
		length, parts, failure := ScanFString(s, 0)
		if length <= prefix || length > len(s) || failure != nil && (failure.At < 0 || failure.At > len(s)) {
			t.Fatalf("%q: length %d, %+v", s, length, failure)
		}
		at := prefix
		for _, p := range parts {
			if p.Start <= at || p.Start >= length || p.Field && (p.ExprStart <= p.Start || p.ExprEnd < p.ExprStart || p.ExprEnd >= length || p.DebugEnd >= length) {
				t.Fatalf("%q: part %+v", s, p)
			}
			at = p.Start
		}
	})
}
