package interp

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/rogpeppe/go-internal/txtar"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

func FuzzRun(f *testing.F) {
	addScripts(f)
	f.Fuzz(func(t *testing.T, code string) {
		result, err := serve(abi.Request{
			Op: abi.OpRun, Name: "fuzz", Code: code, Params: []byte(`{"list":[1],"x":{"y":null}}`), Servers: testServers,
		}, &fakeHost{}, 20_000)
		switch {
		case err == nil && !json.Valid(result):
			t.Fatalf("%q: result %q", code, result)
		case err != nil && err.Type == abi.ErrInternal:
			t.Fatalf("%q: %s", code, err.Message)
		case err != nil && result != nil:
			t.Fatalf("%q: both a result and an error", code)
		case err != nil && err.Position != nil:
			checkPosition(t, code, *err.Position)
		}
		l := Lint(code, testServers)
		for _, w := range l.Warnings {
			checkPosition(t, code, w.Position)
		}
		for _, n := range l.Calls {
			checkPosition(t, code, n.Position)
			if n.Arguments != nil && !json.Valid(n.Arguments) {
				t.Fatalf("%q: arguments %q", code, n.Arguments)
			}
		}
		if l.Value != nil {
			checkPosition(t, code, *l.Value)
		}
		if lines := strings.Count(code, "\n") + strings.Count(code, "\r") + 1; slices.ContainsFunc(l.Bound, func(b abi.Binding) bool { return b.First > b.Last || b.Last > lines }) {
			t.Fatalf("%q: %+v", code, l.Bound)
		}
	})
}

// addScripts adds all scripts of the test data as seeds.
func addScripts(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(paths, "testdata/python/programs.txtar") {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".star") || strings.HasSuffix(file.Name, ".py") {
				f.Add(string(file.Data))
			}
		}
	}
}

// checkPosition reports whether a position is in the script, including its end.
func checkPosition(t *testing.T, code string, p abi.Position) {
	t.Helper()
	src := newSource("", code)
	width := utf8.RuneCountInString(src.line(p.Line))
	if p.Line < 1 || p.Column < 1 || p.Line > len(src.lines) || p.Column > width+1 {
		t.Fatalf("%q: position %+v", code, p)
	}
}

// FuzzFormat checks that no format makes a huge text or panics.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{"", ">10", "*^+#010,.3f", "%5.2f|%-3s|%%|%(a)d", "{:>{}}|{0[a].b}|{{", "_x", "c"} {
		f.Add(s)
	}
	values := []starlark.Value{
		starlark.None, starlark.True, starlark.MakeInt(-1234567), starlark.MakeInt64(1 << 62).Mul(starlark.MakeInt(1 << 20)),
		starlark.Float(-1234.5678), starlark.Float(math.Inf(1)), starlark.Float(math.NaN()), starlark.String("é日"), starlark.NewList(nil), newObject(0),
	}
	f.Fuzz(func(t *testing.T, spec string) {
		const most = 4 * (maxFormatWidth + 1000)
		parsed, err := parseSpec(spec)
		for _, v := range values {
			if err == nil {
				if out, _ := parsed.format(v); len(out) > most {
					t.Fatalf("%q: %d bytes", spec, len(out))
				}
			}
			_, _ = percent(spec).Binary(syntax.PERCENT, v, starlark.Left)
			_, _ = percent(spec).Binary(syntax.PERCENT, starlark.Tuple{v, v}, starlark.Left)
			b := starlark.NewBuiltin(formatMethod, format).BindReceiver(starlark.String(spec))
			_, _ = format(nil, b, starlark.Tuple{v, v}, nil)
		}
	})
}

func FuzzLex(f *testing.F) {
	for _, s := range []string{"x = f'a' # b\n", "'''a\n'''\\\r\n(\r)", "é\xff\"", "rb'\\", "a**=b//=c\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) {
		line, col := 1, 1
		tokens := lex(code)
		for _, tok := range tokens {
			if tok.line < line || tok.line == line && tok.col < col || tok.endLine < tok.line {
				t.Fatalf("%q: token %+v after %d:%d", code, tok, line, col)
			}
			line, col = tok.endLine, tok.endCol
		}
		for i := range tokens {
			wordHint(tokens, i)
			syntaxHint(tokens, i)
			unclosed(parse.Portion{Code: code, Line: 1, Col: 1}, tokens[i])
			if i > 100 {
				break
			}
		}
	})
}
