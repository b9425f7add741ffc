package report

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

var update = flag.Bool("update", false, "update the golden files")

// hostile has everything that could have a meaning in one of the formats.
const hostile = "]]> <b>&amp; 100% ::error file=x::y ##[error]z\n::error::at the start of a line\n" +
	"  ---\n  ...\nnot ok 99 - x # SKIP\r\n```\n| \\ ` @octocat\x1b[31mred\x1b[0m \x00 \xff \u009b \u202e \u2028 \U000e0041 \ufffe 👩\u200d👩 é\x7f\n"

// sample returns a run with every status, and with hostile text everywhere.
func sample(t *testing.T) []File {
	t.Helper()
	m := expect.Equal([]byte(`{"open":3,"list":[1,2]}`), []byte(`{"open":4,"list":[1,2]}`))
	if m == nil {
		t.Fatal("equal")
	}
	wrong := Of("expect.result", m)
	wrong.Line, wrong.Column = 17, 5
	first := File{
		Path: "checks/smoke.toml", Duration: 1500 * time.Millisecond,
		Results: []Result{
			{Tags: []string{"fast", hostile}, Name: "adds", Line: 5, Column: 1, Status: Passed, Duration: 12345 * time.Microsecond, Logs: []string{"one\ntwo"}, Output: "5"},
			{
				Name: "summary tool", Line: 14, Column: 1, Status: Failed, Duration: time.Second,
				Problems: []Problem{wrong, {Message: "no calls"}}, Attempts: 3, Usage: &Usage{Fuel: 12345678, Memory: 9 << 20, Calls: 2}, Run: sampleRun(), Logs: []string{"page 1"}, Output: `{"open":4}`,
			},
			{Name: "later", Line: 30, Status: Skipped, Problems: []Problem{{Message: "does not match --filter"}}},
			{Name: "no reason", Status: Skipped},
			{Name: "server", Line: 40, Column: 1, Status: Broken, Problems: []Problem{{Message: "the server did not start"}}},
			{Name: "before all", Line: 45, Status: Passed, Phase: "setup"},
			{Name: "nothing known", Line: 50, Status: Failed},
		},
	}
	second := File{
		Path: "odd, name: 100%.toml",
		Results: []Result{{
			Row: Row{2, []Cell{{"city", "New York"}, {"n", "5"}, {"x", hostile}}}, Name: hostile, Line: 2, Column: 4, Status: Failed, Duration: 61 * time.Second,
			Problems: []Problem{{
				Expectation: "expect.text", Path: `$["` + hostile + `"]`, Message: hostile, Want: hostile, Got: " " + hostile + "\n\n",
				Diff: "--- want\n+++ got\n@@ -1 +1 @@\n-" + hostile + "+x\n", Line: 3,
			}},
			Logs: []string{hostile, ""}, Output: hostile,
		}},
	}
	first.Digest, first.Stale = strings.Repeat("0f", 32), []string{"checks/smoke.snapshots/old.json", hostile}
	first.Servers = []Server{
		{Name: "github", Product: "github-mcp-server", Version: "1.2", Protocol: "2025-11-25", Tools: []Tool{{"search", true}, {"<b>delete", false}, {"list", true}}},
		{Name: hostile, Product: hostile, Version: hostile, Protocol: hostile, Tools: []Tool{{hostile, false}}},
		{Name: "gone", Err: "it exited with code 1\n" + hostile},
	}
	third := File{Path: "wrong.toml", Err: errors.Join(fmt.Errorf("file: %w", &config.Problem{File: "wrong.toml", Line: 7, Column: 3, Text: "unknown key\n::error::x"}), errors.New("second"))}
	files := []File{first, second, third, {Path: "empty.toml"}}
	for i := range files {
		for k := range files[i].Results {
			files[i].Results[k].File = files[i].Path
		}
	}
	return files
}

// sampleRun returns the calls of a script, with hostile text.
func sampleRun() *timeline.View {
	rec := &journal.Record{ID: "run-1", Done: true, Duration: 900 * time.Millisecond}
	rec.Definition.Name = "summary tool"
	for i, tool := range []string{"search", hostile} {
		rec.Calls = append(rec.Calls, journal.CallRecord{
			Seq: i + 1, Server: "github", Tool: tool, Start: time.Duration(i) * 300 * time.Millisecond, Duration: 400 * time.Millisecond, Done: true,
			Request: abi.ToolCall{Arguments: wire.Quote(hostile)}, Answer: journal.Answer{Result: []byte(`{"content":[]}`)},
		})
	}
	rec.Calls[1].Answer = journal.Answer{Err: &abi.CallError{Type: abi.ErrTool, Message: hostile}}
	return timeline.NewShortView(rec, 1<<10, 100)
}

// write passes files to a Writer in the way that smoke does.
func write(t *testing.T, w Writer, files []File) {
	t.Helper()
	s := Summary{Duration: 62 * time.Second}
	if len(files) > 0 && files[0].Servers != nil {
		s.Coverage = &Coverage{Min: 80}
	}
	for _, f := range files {
		for _, r := range f.Results {
			if err := w.Result(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.File(f); err != nil {
			t.Fatal(err)
		}
		s.Add(f)
	}
	if err := w.Close(s); err != nil {
		t.Fatal(err)
	}
}

// render returns files in a format.
func render(t *testing.T, format string, o Options, files []File) string {
	t.Helper()
	var b bytes.Buffer
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	w, err := New(format, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := w.(*gitHub); ok {
		g.token = "TOKEN"
	}
	if h, ok := w.(*htmlWriter); ok {
		h.now = func() time.Time { return time.Time{} }
	}
	write(t, w, files)
	return strings.ReplaceAll(b.String(), display.Time(time.Time{}, time.Second), "TIME")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff.Diff("want", want, "got", []byte(got)); d != nil {
		t.Errorf("%s (-update updates it):\n%s", path, d)
	}
}

func TestGolden(t *testing.T) {
	for _, format := range Formats {
		t.Run(format, func(t *testing.T) { golden(t, format+".golden", render(t, format, Options{}, sample(t))) })
		t.Run(format+" of nothing", func(t *testing.T) {
			golden(t, format+"-empty.golden", render(t, format, Options{}, nil))
		})
	}
	t.Run("colours", func(t *testing.T) {
		golden(t, "text-color.golden", render(t, "text", Options{Color: true, Verbose: true}, sample(t)[:1]))
	})
}

// TestNoControlCharacters checks that all formats write valid UTF-8 without control characters.
func TestNoControlCharacters(t *testing.T) {
	for _, format := range Formats {
		text := render(t, format, Options{Verbose: true}, sample(t))
		for i, r := range text {
			if format == "html" && (r == '\u2028' || r == '\ufffd') {
				continue // the text of a page
			}
			if !display.Harmless(r) || r == '\ufffd' && format != "json" {
				t.Errorf("%s: %q at %d", format, r, i)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	tests := []struct {
		files []File
		code  int
		text  string
	}{
		{nil, 0, "0 checks in 0 files: 0 passed (0ms)"},
		{[]File{{Results: []Result{{Status: Passed}, {Status: Skipped}}}}, 0, "2 checks in 1 file: 1 passed, 1 skipped (0ms)"},
		{[]File{{Results: []Result{{Status: Failed}}}}, 1, "1 check in 1 file: 0 passed, 1 failed (0ms)"},
		{[]File{{Results: []Result{{Status: Broken}}}, {}}, 1, "1 check in 2 files: 0 passed, 1 broken (0ms)"},
		{[]File{{Err: errors.New("x")}, {Results: []Result{{Status: Failed}}}}, 2, "1 check in 2 files: 0 passed, 1 failed; 1 file could not be run (0ms)"},
	}
	for _, tt := range tests {
		var s Summary
		for _, f := range tt.files {
			s.Add(f)
		}
		if s.ExitCode() != tt.code || s.String() != tt.text {
			t.Errorf("%d %q, want %d %q", s.ExitCode(), s, tt.code, tt.text)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	var formatErr *FormatError
	if _, err := New("yaml", &bytes.Buffer{}, Options{}); !errors.As(err, &formatErr) || formatErr.Format != "yaml" {
		t.Errorf("%v", err)
	}
}

// broken is an io.Writer that fails.
type broken struct{ calls int }

var errBroken = errors.New("broken pipe")

func (b *broken) Write([]byte) (int, error) { b.calls++; return 0, errBroken }

// TestWriteError checks that the first write error is returned by all later calls, and that
// nothing more is written.
func TestWriteError(t *testing.T) {
	for _, format := range Formats {
		out := &broken{}
		w, err := New(format, out, Options{Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		f := sample(t)[0]
		_ = w.Result(f.Results[1]) // formats that do not stream have not written anything yet
		_ = w.File(f)
		if err := w.Close(Summary{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", format, err)
		}
		if out.calls != 1 {
			t.Errorf("%s: %d writes", format, out.calls)
		}
	}
}

// TestColorsOfFile checks that a file is not taken for a terminal.
func TestColorsOfFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if hasColors(f, func(string) string { return "" }) {
		t.Error("colours in a file")
	}
}

// TestDetailsAreBounded checks that the description of a check is bounded.
func TestDetailsAreBounded(t *testing.T) {
	logs := make([]string, 500)
	for i := range logs {
		logs[i] = fmt.Sprint("entry ", i)
	}
	text := render(t, "text", Options{}, []File{{Path: "f", Results: []Result{
		{Name: "x", Status: Failed, File: "f", Logs: logs, Output: strings.Repeat("line\n", 5000)},
	}}})
	if n := strings.Count(text, "\n"); n > maxLogs+maxOutputLines+10 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{"(450 earlier entries)", "entry 499", "(4940 more lines)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
