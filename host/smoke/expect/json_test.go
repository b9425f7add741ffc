package expect

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

func TestJSON(t *testing.T) {
	const ok = ""
	tests := []struct {
		want, got             string
		equalErr, subsetError string // Error() of the mismatch
	}{
		{`1`, `1.0`, ok, ok},
		{`1`, `10e-1`, ok, ok},
		{`-0`, `0.00`, ok, ok},
		{`12345678901234567890123`, `12345678901234567890124`, "other value", "other value"},
		{`12345678901234567890123`, `1234567890123456789012.3e1`, ok, ok},
		{`0.1`, `0.1000000000000000055511151231257827`, "other value", "other value"},
		{`1e999999999999999999999`, `1E+999999999999999999999`, ok, ok},
		{`1e999999999999999999999`, `1e999999999999999999998`, "other value", "other value"},
		{`1`, `-1`, "other value", "other value"},
		{`1`, `"1"`, "want a number, got a string", "want a number, got a string"},
		{`null`, `false`, "want null, got a boolean", "want null, got a boolean"},
		{`null`, `{}`, "want null, got an object", "want null, got an object"},
		{`"a/b"`, `"a\/\u0062"`, ok, ok},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, ok, ok},
		{`{"a":1}`, `{"a":2,"a":1}`, ok, ok},
		{`{}`, `{"a":1}`, "at $.a: unexpected member", ok},
		{`{"a":{"b":[{"c":1}]}}`, `{"a":{"b":[{"c":1,"d":2}],"e":3}}`,
			"at $.a.b[0].d: unexpected member (the first of 2 differences)", ok},
		{`{"a":{"b":[1,2,3]}}`, `{"a":{"b":[1,9,3]}}`, "at $.a.b[1]: other value", "at $.a.b[1]: other value"},
		{`[1]`, `[1,2]`, "at $[1]: unexpected item", "at $[1]: unexpected item"},
		{`[1,2]`, `[1]`, "at $[1]: item is missing", "at $[1]: item is missing"},
		{`[1,2]`, `[2,1]`, "at $[0]: other value (the first of 2 differences)", "at $[0]: other value (the first of 2 differences)"},
		{`{"x y":{"é":true}}`, `{"x y":{}}`, `at $["x y"].é: member is missing`, `at $["x y"].é: member is missing`},
		{`{"a":null}`, `{}`, "at $.a: member is missing", "at $.a: member is missing"},
		{`[]`, `{}`, "want an array, got an object", "want an array, got an object"},
		{`1`, ``, "the answer cannot be compared: not valid JSON: it is empty", "the answer cannot be compared: not valid JSON: it is empty"},
		{`1`, `1 2`, "the answer cannot be compared: not valid JSON: more than one value", "the answer cannot be compared: not valid JSON: more than one value"},
		{``, `1`, "what is expected cannot be compared: not valid JSON: it is empty", "what is expected cannot be compared: not valid JSON: it is empty"},
	}
	for _, tt := range tests {
		if got := said(Equal([]byte(tt.want), []byte(tt.got))); got != tt.equalErr {
			t.Errorf("Equal(%s, %s) = %q, want %q", tt.want, tt.got, got, tt.equalErr)
		}
		if got := said(Subset([]byte(tt.want), []byte(tt.got))); got != tt.subsetError {
			t.Errorf("Subset(%s, %s) = %q, want %q", tt.want, tt.got, got, tt.subsetError)
		}
	}
}

func said(m *Mismatch) string {
	if m == nil {
		return ""
	}
	return m.Error()
}

func TestCompareNumbers(t *testing.T) {
	inOrder := []string{"-1e999999999", "-2", "-1.5", "-1", "-1e-999999999", "0", "1e-999999999", "0.09", "0.1", "1", "1.5", "2", "10", "1e999999999"}
	for i, a := range inOrder {
		for k, b := range inOrder {
			if got := compareNumbers(a, b); got != sign(i-k) {
				t.Errorf("compare(%s, %s) = %d", a, b, got)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	want := `{"list":[{"id":1,"title":"one"},{"id":2,"title":"two"}],"n":1.0}`
	got := `{"n":1,"list":[{"id":1,"title":"one"},{"id":2,"title":"zwei","more":"x"}],"other":{"a":1}}`
	m := Equal([]byte(want), []byte(got))
	if want := "--- want\n+++ got\n@@ -6,8 +6,12 @@\n" + `     },
     {
       "id": 2,
-      "title": "two"
+      "more": "x",
+      "title": "zwei"
     }
   ],
-  "n": 1.0
+  "n": 1.0,
+  "other": {
+    "a": 1
+  }
 }
`; m.Diff != want {
		t.Errorf("diff:\n%s\nwant:\n%s", m.Diff, want)
	}
	if m.Path != "$.list[1].more" || m.Got != `"x"` || m.Want != "" {
		t.Errorf("%+v", m)
	}
	// For a subset, only the expected members are shown.
	m = Subset([]byte(want), []byte(got))
	if want := "--- want\n+++ got\n@@ -6,7 +6,7 @@\n" + `     },
     {
       "id": 2,
-      "title": "two"
+      "title": "zwei"
     }
   ],
   "n": 1.0
`; m.Diff != want {
		t.Errorf("diff of a subset:\n%s\nwant:\n%s", m.Diff, want)
	}
	m = Equal([]byte(`"a\nb\nc"`), []byte(`"a\nx\nc"`))
	if want := "--- want\n+++ got\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"; m.Diff != want {
		t.Errorf("diff of texts: %q", m.Diff)
	}
	for _, short := range [][2]string{{`"a"`, `"b"`}, {`1`, `{"a":1}`}, {`[1]`, `{}`}} {
		if m := Equal([]byte(short[0]), []byte(short[1])); m.Diff != "" {
			t.Errorf("diff of %q: %s", short, m.Diff)
		}
	}
}

// TestClipped checks that little is shown of huge values, and that they are cut between
// characters.
func TestClipped(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	many := func(n int, f string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(f, i)
		}
		return strings.Join(items, ",")
	}
	deep := strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000)
	tests := map[string][2]string{
		"strings":       {`"` + long + `x"`, `"` + long + `y"`},
		"in an object":  {`{"a":"` + long + `x"}`, `{"a":"` + long + `y"}`},
		"items":         {"[" + many(20_000, "%d") + "]", "[" + many(20_000, "-%d") + "]"},
		"members":       {"{" + many(20_000, `"w%d":1`) + "}", "{" + many(20_000, `"g%d":1`) + "}"},
		"names":         {`{"` + long + `":{"` + long + `x":1}}`, `{"` + long + `":{}}`},
		"depth":         {deep, strings.Replace(deep, "1", "2", 1)},
		"texts":         {`"` + strings.Repeat(`a\n`, 100_000) + `"`, `"` + strings.Repeat(`b\n`, 100_000) + `"`},
		"no JSON":       {"1", long},
		"digits":        {strings.Repeat("1", 100_000), strings.Repeat("1", 99_999) + "2"},
		"exponents":     {"1e" + strings.Repeat("9", 10_000), "1e" + strings.Repeat("8", 10_000)},
		"diff of a MiB": {`{"a":[` + many(200_000, "%d") + `]}`, `{"a":[` + many(200_000, "%d") + `,1]}`},
	}
	for name, tt := range tests {
		m := Equal([]byte(tt[0]), []byte(tt[1]))
		if m == nil {
			t.Errorf("%s: equal", name)
			continue
		}
		for _, s := range []string{m.Path, m.Message, m.Want, m.Got} {
			if len(s) > 1200 || !utf8.ValidString(s) {
				t.Errorf("%s: %d bytes: %.200q", name, len(s), s)
			}
		}
		if len(m.Diff) > maxDiffLines*(maxDiffLine+40) || !utf8.ValidString(m.Diff) {
			t.Errorf("%s: diff of %d bytes", name, len(m.Diff))
		}
	}
	if m := Equal([]byte(tests["in an object"][0]), []byte(tests["in an object"][1])); !strings.Contains(m.Diff, "sha256:") {
		t.Errorf("long strings that differ at the end look the same: %s", m.Diff)
	}
}

// FuzzJSON checks that comparing never panics, that a value equals itself however it is
// written and is a subset of itself, and that a mismatch has a message.
func FuzzJSON(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":[1,2.50,{"b":null}]}`, `{"a":[1,2.5,{"b":true}],"c":"x"}`},
		{`"a\nb"`, `"\ud800"`}, {`-0e0`, `1E400`}, {`[[],{}]`, "{\"\xff\":1}"}, {`{"a":1,"a":2}`, `{"":{"":0}}`},
		{``, `nul`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, m := range []*Mismatch{Equal(a, b), Subset(a, b)} {
			if m != nil && m.Message == "" {
				t.Errorf("a mismatch without message: %+v", m)
			}
		}
		if (Equal(a, b) == nil) != (Equal(b, a) == nil) {
			t.Error("Equal depends on the order")
		}
		if Equal(a, b) == nil && Subset(a, b) != nil {
			t.Error("equal, but no subset")
		}
		for _, x := range [][]byte{a, b} {
			if v, err := jsonvalue.Decode(x); err == nil {
				again, err := json.Marshal(v)
				if err != nil {
					continue // nested too deep to be encoded
				}
				if m := Equal(x, again); m != nil {
					t.Errorf("%q is not what it is: %v", x, m)
				}
				if m := Subset(again, x); m != nil {
					t.Errorf("%q has not itself: %v", x, m)
				}
			}
		}
		result := append(append([]byte(`{"content":[{"type":"image","data":"`), a...), `"}]}`...)
		Image(ImageWant{}, result)
		Text(Pattern{source: "x"}, b)
		Progress(0, [][]byte{a, b})
		Meta(a, b)
	})
}

// TestLargeValues checks that values with too many parts are not compared, unless they are decoded
// within bounds.
func TestLargeValues(t *testing.T) {
	tiny := []byte("[" + strings.Repeat(`{"":1},`, 300_000) + "1]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, m := range []*Mismatch{Equal([]byte(`[]`), tiny), Subset([]byte(`[]`), tiny), Equal(tiny, []byte(`[]`))} {
		if m == nil || !strings.Contains(m.Message, "cannot be compared: has 600002 JSON values, more than the limit of 100000") {
			t.Errorf("%+v", m)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*uint64(len(tiny)) {
		t.Errorf("%d bytes were allocated for %d", got, len(tiny))
	}
	// An exponent of that length would be read for minutes.
	long := "1e" + strings.Repeat("9", 5_000_000)
	if Equal([]byte(long), []byte(long)) != nil || Equal([]byte(long), []byte("1")) == nil {
		t.Error("a long exponent")
	}
}
