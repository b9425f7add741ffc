package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestIndentJSON(t *testing.T) {
	if got, want := string(IndentJSON([]byte(`{"n":12345678901234567890,"f":1.10}`+"\n"))), "{\n  \"n\": 12345678901234567890,\n  \"f\": 1.10\n}"; got != want {
		t.Errorf("got %s", got)
	}
	if got := string(IndentJSON([]byte("no JSON"))); got != "no JSON" {
		t.Errorf("got %q", got)
	}
}

func TestComplain(t *testing.T) {
	var b bytes.Buffer
	Complain(&b, errors.Join(errors.New("one\x07"), errors.New("two")))
	if got, want := b.String(), "mcp-metatool: one\uFFFD\nmcp-metatool: two\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadParams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(file, []byte("{\"a\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, stdin, want, err string }{
		{flag: "{}", want: "{}"},
		{flag: "@" + file, want: "{\"a\": 1}\n"},
		{flag: "-", stdin: `{"b":2}`, want: `{"b":2}`},
		{flag: "-", stdin: "", err: "standard input: not a JSON object"},
		{flag: "[]", err: "--params: not a JSON object"},
		{flag: "{} {}", err: "--params: not a JSON object"},
		{flag: "@" + file + "x", err: "p.jsonx"},
		{flag: "-", stdin: strings.Repeat(" ", maxParams+1), err: "larger than 64MiB"},
	} {
		got, err := ReadParams(t.Context(), c.flag, strings.NewReader(c.stdin))
		if c.err == "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: %q, %v", c.flag, got, err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.flag, err, c.err)
		}
	}
}

func TestReadResult(t *testing.T) {
	r := ReadResult([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":""},{"type":"text","text":"b"},{"type":"strange"}],"isError":false}`))
	if r.IsError || r.Output() != "a\nb\n" || !slices.Equal(r.Others, []string{"image image/png", "strange"}) {
		t.Errorf("%+v", r)
	}
	composite := `{"_meta":{"io.github.mcp-metatool/receipt":{"run":"id","memory":5242880,"calls":1}},
		"content":[{"type":"text","text":"x"}],"isError":true,
		"structuredContent":{"result":%s,"logs":["l"],"executionTime":1.5,"toolCalls":[{"server":"s","tool":"t","params":{"a":1},"result":2}]}}`
	r = ReadResult(fmt.Appendf(nil, composite, `"a\nb"`))
	if !r.IsError || r.Output() != "a\nb\n" || r.Logs[0] != "l" || r.Receipt != (Receipt{"id", 5242880, 1, 1.5}) {
		t.Errorf("%+v", r)
	}
	if c := r.Calls[0]; c.Server != "s" || c.Tool != "t" || string(c.Params) != `{"a":1}` || string(c.Result) != "2" {
		t.Errorf("%+v", c)
	}
	r = ReadResult(fmt.Appendf(nil, composite, `12345678901234567890`))
	if r.Output() != "12345678901234567890\n" {
		t.Errorf("%q", r.Output())
	}
	for _, odd := range []string{``, `null`, `[]`, `{"content":3,"structuredContent":null}`, `{"_meta":{"io.github.mcp-metatool/receipt":3}}`} {
		r := ReadResult([]byte(odd))
		_ = r.Output() // must not panic
	}
}

func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	p := NewProgressView(&b, false, "tool")
	for i := range 41 {
		p.Update(fmt.Appendf(nil, `{"progress":%d,"total":40,"message":"step %d\u001b[2J"}`, i, i))
	}
	p.Update([]byte(`{"progress":"x"}`))
	p.Update([]byte(`{}`))
	p.End()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 11 || lines[0] != "progress   0% step 0\uFFFD[2J" || !strings.HasPrefix(lines[10], "progress 100% step 40") {
		t.Errorf("%d lines:\n%s", len(lines), b.String())
	}

	b.Reset()
	p = NewProgressView(&b, false, "tool")
	for i := range 1000 {
		p.Update(fmt.Appendf(nil, `{"progress":%d}`, i))
	}
	if got := b.String(); !strings.HasPrefix(got, "progress 0 \n") || strings.Count(got, "\n") > 100 {
		t.Errorf("got %q", got)
	}
}

func TestProgressBar(t *testing.T) {
	var b bytes.Buffer
	p := NewProgressView(&b, true, "tool")
	p.Update([]byte(`{"progress":1,"message":"unknown"}`))
	p.Update([]byte(`{"progress":2,"total":4,"message":"half"}`))
	p.Update([]byte(`{"progress":9,"total":4,"message":"more than all"}`))
	p.Update([]byte(`{"progress":10}`))
	p.End()
	for _, want := range []string{"tool", "unknown", "50% [", "half"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
	if !strings.HasSuffix(b.String(), " \r") {
		t.Errorf("the bar is still there: %q", b.String())
	}
}
