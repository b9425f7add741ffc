package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/interp"
)

// workload is a script whose time is measured, in the sandbox and by the same
// interpreter without one.
type workload struct{ name, code, params string }

var (
	trivial   = workload{"trivial", `return params.a + params["b"]`, `{"a":1,"b":2}`}
	fiveCalls = workload{"five calls", "return [s.echo({'n': i, 'items': ['a', 'b', {'c': 1.5}]}).n for i in range(5)]", "{}"}
)

// realistic is a script that filters five pages of 20 objects each.
func realistic(t testing.TB) workload {
	return workload{"realistic", read(t, "testdata/realistic.star"), `{"query":"bug"}`}
}

// cpuBound are ten scripts that compute and call no tools.
func cpuBound(t testing.TB) []workload {
	t.Helper()
	paths, err := filepath.Glob("testdata/cpu/*.star")
	if err != nil || len(paths) != 10 {
		t.Fatal(paths, err)
	}
	var list []workload
	for _, path := range paths {
		list = append(list, workload{strings.TrimSuffix(filepath.Base(path), ".star"), read(t, path), "{}"})
	}
	return list
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w workload) request() abi.Request {
	return abi.Request{Op: abi.OpRun, Name: "tool", Code: w.code, Params: json.RawMessage(w.params), Servers: []string{"s"}}
}

// sandboxed runs the script in an instance of the snapshot.
func (w workload) sandboxed(t testing.TB, s *snapshot) []byte {
	t.Helper()
	i := newInstance(Run{Request: w.request(), Caller: &workloadTools{}}, real().log)
	out, err := i.run(context.Background(), s)
	if err != nil || out.Err != nil {
		t.Fatalf("%s: %+v, %v", w.name, out.Err, err)
	}
	return out.Result
}

// native runs the script in this process.
func (w workload) native(t testing.TB) []byte {
	t.Helper()
	result, err := interp.Run(w.request(), nativeHost{&workloadTools{}})
	if err != nil {
		t.Fatalf("%s: %+v", w.name, err)
	}
	return result
}

// workloadTools has the tools of these scripts: search returns a page of issues, all
// others return their arguments.
type workloadTools struct{ page int }

func (w *workloadTools) CallTools(_ context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for n, c := range calls {
		answers[n].Value = c.Arguments
		if c.Tool == "search" {
			answers[n].Value = issuePages[w.page%len(issuePages)]
			w.page++
		}
	}
	return answers
}

func (*workloadTools) Log(abi.LogLevel, string) func()                   { return nil }
func (*workloadTools) Undo(context.Context, abi.ToolCall) *abi.CallError { return nil }
func (*workloadTools) Commit()                                           {}
func (*workloadTools) Progress(abi.Progress)                             {}

// nativeHost does the same for the interpreter without a sandbox.
type nativeHost struct{ *workloadTools }

func (h nativeHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	return h.workloadTools.CallTools(context.Background(), calls), nil
}

// issuePages returns answers like those of a code host: 20 issues of about 700 bytes
// each.
var issuePages = func() (pages [5][]byte) {
	for page := range pages {
		var b strings.Builder
		b.WriteString(`{"total_count":100,"incomplete_results":false,"items":[`)
		for i := range 20 {
			if i > 0 {
				b.WriteByte(',')
			}
			n := page*20 + i
			fmt.Fprintf(&b, `{"id":%d,"node_id":"MDU6SXNzdWU%d","number":%d,"title":"Something is wrong with part %d","state":%q,"locked":false,"comments":%d,"score":1.5,
"user":{"login":"user%d","id":%d,"type":"User","site_admin":false,"avatar_url":"https://example.com/u/%d"},
"labels":[{"id":1,"name":"bug","color":"d73a4a","default":true},{"id":2,"name":"part-%d","color":"0075ca","default":false}],
"assignee":null,"milestone":{"number":%d,"title":"v%d"},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-02-03T04:05:06Z","closed_at":null,
"body":"Steps to reproduce:\r\n1. open the \"thing\"\r\n2. look at it\r\n\r\nExpected: nothing – got: an error (caf\u00e9)."}`,
				9007199254740993+n, n, n, n, []string{"open", "closed"}[n%2], n%7, n%5, n%5, n%5, n%3, n%4, n%4)
		}
		b.WriteString("]}")
		pages[page] = []byte(b.String())
	}
	return pages
}()

// TestWorkloads checks that results are the same with and without the sandbox.
func TestWorkloads(t *testing.T) {
	s := realSandbox(t)
	for _, w := range append(cpuBound(t), trivial, fiveCalls, realistic(t)) {
		t.Run(w.name, func(t *testing.T) {
			got, want := w.sandboxed(t, s.base), w.native(t)
			if string(got) != string(want) || len(want) == 0 {
				t.Errorf("got %.200s, natively %.200s", got, want)
			}
		})
	}
}

func (nativeHost) Log(abi.LogLevel, string) {}

func (h nativeHost) Undo(abi.ToolCall) (*abi.CallError, error) { return nil, nil }
