package health

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	text := func(s string) *config.Expectation { return &config.Expectation{Text: s} }
	pattern := func(s string) *config.Expectation { return &config.Expectation{Pattern: s} }
	value := func(s string) *config.Expectation { return &config.Expectation{Value: []byte(s)} }
	for _, tt := range []struct {
		name, result string
		expect       *config.Expectation
		want         string
	}{
		{"anything", `{"content":[]}`, nil, ""},
		{"no result", `[]`, nil, "answered without a result"},
		{"an error", `{"content":[{"type":"text","text":"no\nroute"}],"isError":true}`, text("route"), "failed: no route"},
		{"no error", `{"content":[],"isError":false}`, nil, ""},
		{"text", `{"content":[{"type":"text","text":"it is fine"}]}`, text("is"), ""},
		{"text of several blocks", `{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`, text("a\nb"), ""},
		{"other text", `{"content":[{"type":"text","text":"it is \"bad\""}]}`, text("fine"), `answered "it is \"bad\"", which does not contain "fine"`},
		{"no text", `{"content":[]}`, text("fine"), `answered "", which does not contain "fine"`},
		{"text of what has structure alone", `{"content":[],"structuredContent":{"ok":true}}`, text(`"ok":true`), ""},
		{"pattern", `{"content":[{"type":"text","text":"12 ships"}]}`, pattern(`^\d+ ships?$`), ""},
		{"other pattern", `{"content":[{"type":"text","text":"no ships"}]}`, pattern(`^\d+`), `answered "no ships", which does not match /^\d+/`},
		{"value", `{"content":[],"structuredContent":{"ok":true,"n":1.0,"more":[1]}}`, value(`{"ok":true,"n":1}`), ""},
		{"value of text", `{"content":[{"type":"text","text":" {\"ok\":true}\n"}]}`, value(`{"ok":true}`), ""},
		{"number of text", `{"content":[{"type":"text","text":"3"}]}`, value(`3`), ""},
		{"text that is no JSON", `{"content":[{"type":"text","text":"three"}]}`, value(`3`), `answered "three", which does not contain 3`},
		{"null is no structure", `{"content":[{"type":"text","text":"[1]"}],"structuredContent":null}`, value(`[1]`), ""},
		{"other value", `{"content":[],"structuredContent":{"ok":false}}`, value(`{"ok":true}`), `answered {"ok":false}, which does not contain {"ok":true}`},
	} {
		if got := (Checker{}).verdict([]byte(tt.result), tt.expect); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSecretIsMaskedBeforeCutting checks a secret at the position where the text is cut off.
func TestSecretIsMaskedBeforeCutting(t *testing.T) {
	t.Parallel()
	c := Checker{Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2-hunter2", "****") }}
	result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", maxExcerpt-8) + `hunter2-hunter2"}]}`
	if got := c.verdict([]byte(result), &config.Expectation{Text: "hunter2-hunter2!"}); strings.Contains(got, "hunter") || !strings.Contains(got, "****") {
		t.Error(got)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	up := start(t, "raw", mcptest.ServerOptions{})
	for _, tt := range []struct {
		call, params string
		expect       *config.Expectation
		want         string
	}{
		{"instead", `{"text":"all is well"}`, &config.Expectation{Text: "well"}, ""},
		{"instead", `{"text":"all is lost"}`, &config.Expectation{Text: "well"}, `answered "all is lost", which does not contain "well"`},
		{"exotic", `{}`, &config.Expectation{Value: []byte(`{"n":9007199254740993}`)}, ""},
		{"exotic", `{}`, &config.Expectation{Value: []byte(`{"n":9007199254740992}`)}, `answered {"n":9007199254740993,"f":1.10}, which does not contain {"n":9007199254740992}`},
		{"error", `{}`, nil, "refused tools/call: no <such> thing é (code -32042)"},
		{"missing", `{}`, nil, "refused tools/call: unknown tool: missing (code -32602)"},
	} {
		p := &config.Probe{Call: tt.call, Params: []byte(tt.params), Expect: tt.expect, Timeout: time.Minute}
		r := Checker{}.probe(t.Context(), up, p, nil)
		if r.Error != tt.want || (r.Check == OK) != (tt.want == "") || r.Tool != tt.call {
			t.Errorf("%s %s: %+v, want %q", tt.call, tt.params, r, tt.want)
		}
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		got, want string
		ok        bool
	}{
		{`{"a":1,"b":[1,{"c":"x","d":2}],"e":null}`, `{"b":[{"c":"x"}],"e":null}`, true},
		{`{"a":1}`, `{}`, true},
		{`{"a":1}`, `{"e":null}`, false},
		{`{"a":{"b":1}}`, `{"b":1}`, false},
		{`[3,2,1]`, `[1,2]`, true},
		{`[]`, `[]`, true},
		{`[1]`, `[1,2]`, false},
		{`{}`, `[]`, false},
		{`[]`, `{}`, false},
		{`"x"`, `"x"`, true},
		{`"xy"`, `"x"`, false},
		{`true`, `true`, true},
		{`true`, `"true"`, false},
		{`null`, `null`, true},
		{`1`, `1.0`, true},
		{`100`, `1e2`, true},
		{`-0`, `0`, true},
		{`0.1`, `0.10`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`"1"`, `1`, false},
		{`1e999999999999`, `1`, false},
		{`x`, `x`, false},
		{`1 1`, `1`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`{"a":2,"a":1}`, `{"a":2}`, false},
		{`{"a\u0062":[{"\ud800":1}]}`, `{"ab":[{"\ufffd":1}]}`, true},
		{`["a"]`, `["a","a"]`, true},
		{`[1`, `[1]`, false},
		{strings.Repeat("9", 2_000_000), `1`, false}, // exact arithmetic would take minutes
	} {
		if contains([]byte(tt.got), []byte(tt.want)) != tt.ok {
			t.Errorf("contains(%s, %s) is not %v", tt.got, tt.want, tt.ok)
		}
	}
}

// TestLargeAnswers checks that an answer is compared without values for its parts, which would
// need fifty times its bytes.
func TestLargeAnswers(t *testing.T) {
	tiny := "[" + strings.Repeat(`{"":1},`, 200_000) + `{"":1,"a":{"b":[2]}}]`
	for _, got := range []string{tiny, `{"a":` + tiny + `,"b":{"b":[2]}}`} {
		result := []byte(`{"content":[],"structuredContent":` + got + `}`)
		for _, want := range []string{`[{"a":{"b":[2]}}]`, `{"a":[{"a":{}}],"b":{}}`, `[{"b":1},3]`} {
			var verdict string
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			verdict = Checker{}.verdict(result, &config.Expectation{Value: []byte(want)})
			runtime.ReadMemStats(&after)
			if fits := want[0] == got[0] && want != `[{"b":1},3]`; fits != (verdict == "") {
				t.Errorf("%s: %.100s", want, verdict)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16*uint64(len(result)) {
				t.Errorf("%s: %d bytes were allocated for %d", want, allocated, len(result))
			}
		}
	}
}

func FuzzContains(f *testing.F) {
	f.Add(`{"a":[1,{"b":1e400}],"c":"\ud83d"}`)
	f.Add(`1e-999999999`)
	f.Add(`[[[[{}]]]]`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !utf8.ValidString(raw) {
			return // what is expected is always UTF-8
		}
		if contains([]byte(raw), []byte(raw)) != json.Valid([]byte(raw)) {
			t.Errorf("%s does not contain itself", raw)
		}
	})
}
