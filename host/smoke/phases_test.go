package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

// collector is a report.Writer that keeps the results. onResult, if set, is called with
// each.
type collector struct {
	results  []report.Result
	files    []report.File
	onResult func(report.Result)
}

func (c *collector) Result(r report.Result) error {
	c.results = append(c.results, r)
	if c.onResult != nil {
		c.onResult(r)
	}
	return nil
}

func (c *collector) File(f report.File) error {
	c.files = append(c.files, f)
	return nil
}

func (c *collector) Close(report.Summary) error { return nil }

// runText runs the checks in a text.
func runText(t *testing.T, ctx context.Context, text string, opts Options, out *collector) error {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checks.toml")
	text = strings.NewReplacer("$EXE", filepath.ToSlash(exe), "$SERVER", mcptest.Env).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts.CacheDir, opts.newSandbox, opts.Load = cache, sharing(t), isolated(filepath.Dir(path))
	runner := NewRunner(opts)
	_, err = runner.Run(ctx, []string{path}, out)
	if bad := runner.Close(); bad != nil {
		t.Error(bad)
	}
	for _, f := range out.files {
		if f.Err != nil {
			t.Fatal(f.Err)
		}
	}
	return err
}

// TestRetry tries checks again. The server has one more tool each time that change is
// called, and only when it has a tool of that name does the server itself refuse the call.
func TestRetry(t *testing.T) {
	t.Parallel()
	out := &collector{}
	err := runText(t, mcptest.Bounded(t), `
[upstream.raw]
command = "$EXE"
env = { $SERVER = '{"PageSize": 100}' }
[[check]]
name = "passes at last"
code = '''
raw.change(list="tools")
raw.added_3()
'''
expect.error = "unknown tool: added-3"
retry = { times = 1000, delay = "5ms" }
[[check]]
name = "never passes"
call = "raw__instead"
params = { text = "x" }
expect.text = "y"
retry = { times = 2, delay = "1ms" }
[[check]]
name = "passes at once"
call = "raw__instead"
params = { text = "x" }
capture.x = "text"
retry = { times = 2, delay = "1h" }
[[check]]
name = "nothing to capture"
call = "raw__instead"
params = { text = "x" }
capture.y = "/nothing"
retry = { times = 1, delay = "1ms" }
[[check]]
name = "cannot be run"
code = "nothing.star"
retry = { times = 1, delay = "1h" }
`, Options{}, out)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		status   report.Status
		attempts int
	}{{report.Passed, -1}, {report.Failed, 3}, {report.Passed, 1}, {report.Failed, 2}, {report.Broken, 1}} {
		got := out.results[i]
		if got.Status != want.status || want.attempts >= 0 && got.Attempts != want.attempts || want.attempts < 0 && got.Attempts < 3 {
			t.Errorf("%s: %s after %d attempts, want %s after %d: %+v", got.Name, got.Status, got.Attempts, want.status, want.attempts, got.Problems)
		}
	}
}

// TestInterrupted ends the run within a check. Teardown runs nevertheless, and the checks
// after it do not.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(mcptest.Bounded(t))
	interrupted := errors.New("interrupted by the test")
	out := &collector{onResult: func(r report.Result) {
		if r.Name == "first" {
			stop(interrupted)
		}
	}}
	err := runText(t, ctx, `
[[setup]]
name = "creates"
code = "return 1"
mock = []
capture.id = "result"
[[check]]
name = "first"
code = "return 1"
mock = []
[[check]]
name = "hangs"
code = "return [a.b(), params.first]"
params = { first = 1 }
mock = [{ tool = "a.b", returns = 1, delay = "1h" }]
[[check]]
name = "after it"
code = "return 1"
mock = []
[[teardown]]
name = "deletes"
code = "return params.id"
params = { id = "{{id}}" }
mock = []
expect.result = 1
`, Options{}, out)
	if !errors.Is(err, interrupted) {
		t.Errorf("the run ended with %v", err)
	}
	var got []string
	for _, r := range out.results {
		got = append(got, strings.TrimPrefix(r.Phase+": ", ": ")+r.Name+" "+string(r.Status))
	}
	want := []string{"setup: creates passed", "first passed", "hangs broken", "after it skipped", "teardown: deletes passed"}
	if slices.Contains(got, "hangs skipped") { // it may not have begun yet
		want[2] = "hangs skipped"
	}
	if !slices.Equal(got, want) {
		t.Errorf("results are %q, want %q", got, want)
	}
}

// TestJobsAndCaptures runs a check that needs another's value together with it, several
// times, and one that needs nothing.
func TestJobsAndCaptures(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("[[check]]\nname = \"0\"\ncode = \"return 0\"\nmock = []\ncapture.v0 = \"result\"\n")
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		before := string(n[0] - 1)
		text.WriteString("[[check]]\nname = \"free\"\ncode = \"return 0\"\nmock = []\n")
		text.WriteString("[[check]]\nname = \"" + n + "\"\ncode = \"return params.v + 1\"\nparams = { v = \"{{v" + before + "}}\" }\nmock = []\nexpect.result = " + n + "\ncapture.v" + n + " = \"result\"\n")
	}
	out := &collector{}
	if err := runText(t, mcptest.Bounded(t), text.String(), Options{Jobs: 4}, out); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.results {
		if r.Status != report.Passed {
			t.Errorf("%s: %s %+v", r.Name, r.Status, r.Problems)
		}
	}
	if len(out.results) != 11 {
		t.Errorf("%d results", len(out.results))
	}
}

// TestTimedOut checks that the calls of a script that has taken too long are in its result.
func TestTimedOut(t *testing.T) {
	t.Parallel()
	for name, mock := range map[string]string{"live": "", "mocked": `mock = [{ tool = "raw.instead", returns = 1 }, { tool = "raw.wait", returns = 1, delay = "1h" }]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r report.Result
			for _, timeout := range []string{"1s", "8s", "40s"} { // until the machine is fast enough for the first call
				out := &collector{}
				err := runText(t, mcptest.Bounded(t), `
[upstream.raw]
command = "$EXE"
env = { $SERVER = '{"PageSize": 100}' }
[[check]]
code = """
raw.instead(text="x")
raw.wait()
"""
timeout = "`+timeout+`"
`+mock, Options{}, out)
				if err != nil {
					t.Fatal(err)
				}
				r = out.results[0]
				if r.Status == report.Failed && r.Run != nil && len(r.Run.Rows) == 2 && strings.Contains(r.Run.Rows[0].Label, "instead") {
					return
				}
			}
			t.Errorf("%s, run %+v, problems %+v", r.Status, r.Run, r.Problems)
		})
	}
}

// TestMaskedBeforeShortened has secrets across the places where answers are shortened.
func TestMaskedBeforeShortened(t *testing.T) {
	t.Parallel()
	const token = "hunter2-hunter2-hunter2"
	var text strings.Builder
	text.WriteString("[vars]\napi_token = \"" + token + "\"\n")
	for _, limit := range []int{maxOutput, 500, 240, 200} { // those here, and those of package expect
		for _, before := range []int{limit - 6, limit - 12, limit - 18} {
			fmt.Fprintf(&text, `
[[check]]
code = "return {'text': params.n * 'x' + params.token + 9000 * 'y'}"
params = { n = %[1]d, token = "{{api_token}}" }
mock = []
expect.result = 1
expect.subset = { text = "z" }
expect.text = "z"
[[check]]
code = "fail(params.n * 'x' + params.token + 9000 * 'y')"
params = { n = %[1]d, token = "{{api_token}}" }
mock = []
`, before)
		}
	}
	out := &collector{}
	if err := runText(t, mcptest.Bounded(t), text.String(), Options{}, out); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.results {
		shown := fmt.Sprintf("%+v", r)
		if !strings.Contains(shown, "xxxx") {
			t.Errorf("%s shows nothing", r.Name)
		}
		if at := strings.Index(shown, token[:6]); at >= 0 {
			t.Errorf("%s shows %.80s", r.Name, shown[max(0, at-40):])
		}
	}
}
