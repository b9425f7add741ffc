package interp

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the outputs of testdata/*.txtar anew")

// fakeHost has a server, demo, with tools that do what their names say, and another
// one, other, that answers every call with its arguments.
type fakeHost struct {
	json  bool // answers have no tapes
	log   strings.Builder
	calls []abi.ToolCall
}

func (h *fakeHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	h.calls = append(h.calls, calls...)
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		if c.Tool == "limit" {
			return nil, errors.New("the run has made 100 calls, which is as many as it may")
		}
		if answers[i] = h.answer(c); !h.json {
			answers[i] = withTape(answers[i])
		}
	}
	return answers, nil
}

func (h *fakeHost) answer(c abi.ToolCall) abi.Answer {
	refuse := func(class abi.ErrorType, message string) abi.Answer {
		return abi.Answer{Err: &abi.CallError{Type: class, Server: c.Server, Tool: c.Tool, Message: message}}
	}
	if c.Server == "other" {
		how := ""
		if c.Timeout != 0 || c.Meta != nil {
			how = fmt.Sprintf(`"timeout":%v,"meta":%q,`, c.Timeout, c.Meta)
		}
		return abi.Answer{Value: fmt.Appendf(nil, `{"server":%q,"tool":%q,"exact":%t,"raw":%t,%s"arguments":%s}`, c.Server, c.Tool, c.Exact, c.Raw, how, c.Arguments)}
	}
	switch c.Tool {
	case "echo":
		return abi.Answer{Value: c.Arguments}
	case "search":
		return abi.Answer{Value: []byte(`{"items": [{"id": 9007199254740993, "title": "first", "user": {"login": "ann"}}, {"id": 2, "title": "second", "user": {"login": "bob"}}], "total_count": 2}`)}
	case "broken":
		if c.Raw {
			return abi.Answer{Value: []byte(`{"content": [{"type": "text", "text": "not found: no such issue"}], "isError": true}`)}
		}
		return refuse(abi.ErrTool, "not found: no such issue")
	case "detailed":
		answer := refuse(abi.ErrTool, "rate limited")
		answer.Err.Details = []byte(`{"code": 429, "retry": [1.5, 9007199254740993]}`)
		return answer
	case "forbidden":
		return refuse(abi.ErrPermission, "this tool may not call it")
	case "garbage":
		return abi.Answer{Value: []byte(`{"a": `)}
	}
	return refuse(abi.ErrValidation, "no such tool")
}

func (h *fakeHost) Undo(c abi.ToolCall) (*abi.CallError, error) {
	if c.Tool == "limit" {
		return nil, errors.New("the run has made 100 calls, which is as many as it may")
	}
	if c.Server == "demo" {
		if a := h.answer(c); a.Err != nil {
			return a.Err, nil
		}
	}
	fmt.Fprintf(&h.log, "undo %s\n", AppendCalls(nil, []abi.ToolCall{c}))
	return nil, nil
}

func (h *fakeHost) Commit() { h.log.WriteString("commit\n") }

func (h *fakeHost) Log(level abi.LogLevel, text string) { fmt.Fprintf(&h.log, "%d %s\n", level, text) }

func (h *fakeHost) Progress(p abi.Progress) {
	text, err := json.Marshal(p)
	fmt.Fprintf(&h.log, "progress %s %v\n", text, err)
}

var testServers = []string{"demo", "other"}

// testAgentTools are the tools that only agents can call. The interpreter gets their
// names from the host.
var testAgentTools = []string{"search_tools", "some_new_tool"}

// outcome is what a test case expects, as text.
func outcome(result []byte, err *abi.Error) string {
	if err == nil {
		return string(result) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "error: %s\nmessage: %s\n", err.Type, err.Message)
	if p := err.Position; p != nil {
		fmt.Fprintf(&b, "at: %s:%d:%d\n", p.File, p.Line, p.Column)
		fmt.Fprintf(&b, "  | %s\n  | %s^\n", p.Source, strings.Repeat(" ", p.Column-1))
	}
	if err.Limit != "" {
		fmt.Fprintf(&b, "limit: %s\n", err.Limit)
	}
	if err.Call != nil {
		fmt.Fprintf(&b, "call: %s %s\n", err.Call.Server, err.Call.Tool)
	}
	if err.Details != nil {
		fmt.Fprintf(&b, "details: %s\n", err.Details)
	}
	if err.Stack != "" {
		b.WriteString(err.Stack + "\n")
	}
	return b.String()
}

// TestScripts runs the cases of testdata/*.txtar: NAME.star with the arguments
// in NAME.params must give NAME.out, and log NAME.log if that is there.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files := make(map[string]string)
		for _, f := range archive.Files {
			files[f.Name] = string(f.Data)
		}
		var fresh []txtar.File
		for _, f := range archive.Files {
			name, isScript := strings.CutSuffix(f.Name, ".star")
			if !isScript {
				continue
			}
			out, log := files[name+".out"], files[name+".log"]
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, func(t *testing.T) {
				host := &fakeHost{}
				result, failure := Run(abi.Request{
					Op: abi.OpRun, Name: name, Code: string(f.Data),
					Params: []byte(files[name+".params"]), Servers: testServers, AgentTools: testAgentTools,
				}, host)
				out, log = outcome(result, failure), host.log.String()
				if !*update && out != files[name+".out"] {
					t.Errorf("got:\n%s\nwant:\n%s", out, files[name+".out"])
				}
				if !*update && log != files[name+".log"] {
					t.Errorf("log:\n%s\nwant:\n%s", log, files[name+".log"])
				}
			})
			fresh = append(fresh, f)
			for _, part := range [][2]string{{".params", files[name+".params"]}, {".log", log}, {".out", out}} {
				if part[1] != "" {
					fresh = append(fresh, txtar.File{Name: name + part[0], Data: []byte(part[1])})
				}
			}
		}
		if *update {
			archive.Files = fresh
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
