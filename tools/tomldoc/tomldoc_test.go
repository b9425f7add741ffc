package tomldoc

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// bombs are short texts that take gigabytes or crash the library.
var bombs = map[string]struct {
	text         string
	line, column int
	deep         bool
}{
	"arrays":                {"a = 1\nb = " + strings.Repeat("[", 100_000), 2, 104, true},
	"inline tables":         {"b = " + strings.Repeat("{a=", 100_000), 1, 304, true},
	"arrays and tables":     {"b = " + strings.Repeat("[{a=", 100_000), 1, 204, true},
	"a dotted key":          {strings.Repeat("a.", 100_000) + "a = 1", 1, 202, true},
	"a name of a table":     {"[" + strings.Repeat("a.", 100_000) + "a]\n", 1, 201, true},
	"a name of tables":      {"# x\n[[" + strings.Repeat("'a' . ", 100_000) + "a]]\n", 2, 601, true},
	"name and key together": {"[" + strings.Repeat("a.", 59) + "a]\n" + strings.Repeat("b.", 59) + "b = 1", 2, 82, true},
	"long name, many keys":  {"[" + strings.Repeat("a", 500_000) + "]\n" + strings.Repeat("b = 1\n", 100_000), 537, 3, false},
	"keys within long keys": {strings.Repeat("a", 500_000) + " = {" + strings.Repeat("b = 1,", 100_000), 1, 503_217, false},
	"very many keys":        {strings.Repeat("b = 1\n", 1_000_000), 877_241, 3, false},
	"very many items":       {"a = [" + strings.Repeat("1,", 5_000_000), 1, 8_388_603, false},
	"very many tables":      {strings.Repeat("[[a]]\n", 1_000_000), 868_724, 6, false},
}

func TestBombsAreRefused(t *testing.T) {
	for name, b := range bombs {
		t.Run(name, func(t *testing.T) {
			var v any
			_, err := Decode(b.text, &v)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Line != b.line || e.Column != b.column || e.Deep != b.deep {
				t.Errorf("%+v, want line %d, column %d, deep %v", e, b.line, b.column, b.deep)
			}
		})
	}
}

func TestNormalTextsPass(t *testing.T) {
	for name, text := range map[string]string{
		"dots in values":  "a = [" + strings.Repeat("1.5, ", 1000) + "]\nb = \"" + strings.Repeat(".[{", 1000) + "\"",
		"dots in texts":   "a = '''\n" + strings.Repeat(".[{'\n", 1000) + "'''\nb = \"\"\"" + strings.Repeat(`\"[.`, 1000) + "\"\"\"\"",
		"comments":        strings.Repeat("# [[[[{{{...\n", 1000) + "a = 1 # ...[[[",
		"one by one":      strings.Repeat("[[a.b.c]]\nd.e = {f = [[1], [2]]}\n", 1000),
		"quoted keys":     `"a.b[".'c.d{' = 1`,
		"almost too deep": "b = " + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1),
		"a large text":    "a = '''" + strings.Repeat("x", 32<<20) + "'''",
	} {
		var v any
		if _, err := Decode(text, &v); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestGuardIgnoresStrings(t *testing.T) {
	deep := strings.Repeat("[.{", 100)
	for _, ok := range []string{
		"x = '" + deep + "'", `x = "\"` + deep + `"`, "# " + deep, "x = '''\n" + deep + "''''' # '", "x = \"\"\"\\\"\"\"" + deep + "\"\"\"",
		strings.Repeat("x = [1.0, 2.0]\n", 100), strings.Repeat("[a.b.c]\n", 100), strings.Repeat("[[a.b.c]]\n", 100),
		`x = "` + deep, "x = '''" + deep, "#",
	} {
		if err := Check(ok); err != nil {
			t.Errorf("%.40q: %v", ok, err)
		}
	}
}

// depthOf returns the nesting of a decoded value, counted like the guard does.
func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			deepest = max(deepest, 1+depthOf(x))
		}
	case []any:
		deepest = 1
		for _, x := range v {
			deepest = max(deepest, 1+depthOf(x))
		}
	case []map[string]any:
		for _, x := range v {
			deepest = max(deepest, 1+depthOf(x))
		}
	}
	return deepest
}

// FuzzGuard compares the guard with the library: it must detect how deep a text is nested,
// and the memory for a text that it accepts must be proportional to its estimate.
func FuzzGuard(f *testing.F) {
	for _, b := range bombs {
		f.Add(b.text[:min(len(b.text), 3000)])
	}
	for _, text := range []string{
		"a.b = [[1], {c = 1, d.e = {}}]\n[x.y]\nz = 1 # .\n[[t]]\n[[t]]\n[t.u]\nv = 1\n",
		"a = \"\"\"x\"\"\"\"\"\nb = ''''x'''''\nc.'d.e'.\"f\\\"g\" = 1.5", "a = {\n b = 1, # }\n c = [ # ]\n 1 ] }", "\ufeffa = 1\r\n[b]\r\nc=1",
		"a = 1979-05-27T07:32:00.99Z\nb=[1.5,2.5]\n[a.b.c.d.e.f]", "[ a . b ]\n\"\" = 1\n'' . x = 1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		g := &guard{text: text, levels: []level{{table: true}}, maxDepth: MaxDepth, maxCost: maxCost}
		if !g.run() {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v map[string]any
		_, err := toml.Decode(text, &v)
		runtime.ReadMemStats(&after)
		taken, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+100*len(text)+16*g.cost)
		if taken > most {
			t.Errorf("%d bytes for a text of %d bytes with cost %d", taken, len(text), g.cost)
		}
		if err != nil {
			return
		}
		if depth := depthOf(v); depth > 2*g.deepest || depth < g.deepest {
			t.Errorf("depth %d, seen was %d", depth, g.deepest)
		}
	})
}
