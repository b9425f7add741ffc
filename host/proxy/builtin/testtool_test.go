package builtin

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

const triage = `{
	"name": "triage",
	"description": "Counts.",
	"inputSchema": {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]},
	"code": "issues = git_hub.search(repo=params.repo)\ntry:\n    git_hub.label(n=issues.total)\nexcept ToolError as e:\n    print(e.message)\nreturn issues.total"
}`

func TestTestTool(t *testing.T) {
	s := newRunFixture(t)
	s.ok("save_tool", triage)
	s.ok("save_tool", `{"name":"outer","description":"d","inputSchema":{"type":"object"},"code":"return tools.triage(repo='r') + 1"}`)
	for _, tt := range []struct{ name, arguments, structured, text string }{
		{"a saved tool",
			`{"name":"triage","params":{"repo":"a/b"},"mocks":[
				{"tool":"git-hub.search","params":{"repo":"x"},"returns":{"total":1}},
				{"tool":"git-hub.search","params":{"repo":"a/b"},"returns":{"total":12345678901234567890}},
				{"tool":"git_hub.label","raises":"forbidden"}]}`,
			`{"result":12345678901234567890,"logs":["forbidden"],"executionTime":MS,"toolCalls":[` +
				`{"server":"git-hub","tool":"search","params":{"repo":"a/b"},"result":{"total":12345678901234567890}},` +
				`{"server":"git_hub","tool":"label","params":{"n":12345678901234567890},"error":{"type":"tool","message":"forbidden"}}],` +
				`"unusedMocks":["mocks[0] (git-hub.search)"],"unmatchedCalls":[]}`,
			`dry run of triage: ok
calls:
  1 git-hub.search {"repo":"a/b"} -> {"total":12345678901234567890} (MS, took MS)
  2 git_hub.label {"n":12345678901234567890} -> tool error: forbidden (MS, took MS)
logs:
  forbidden
result: 12345678901234567890
mocks that were not used:
  mocks[0] (git-hub.search)
`},
		{"no mock fits",
			`{"name":"triage","params":{"repo":"a/b"},"mocks":[{"tool":"git-hub.search","params":{"repo":"x"},"match":"exact","returns":1}]}`,
			``,
			`dry run of triage: tool
calls:
  1 git-hub.search {"repo":"a/b"} -> tool error: no mock answers this call of git-hub.search; the nearest is mocks[0]: params.repo: want "x", got "a/b" (MS, took MS)
tool error: git-hub.search: no mock answers this call of git-hub.search; the nearest is mocks[0]: params.repo: want "x", got "a/b"
  at triage:1:24
    issues = git_hub.search(repo=params.repo)
                           ^
calls without a mock:
  no mock answers this call of git-hub.search; the nearest is mocks[0]: params.repo: want "x", got "a/b"
mocks that were not used:
  mocks[0] (git-hub.search)
`},
		{"arguments that do not match", `{"name":"triage","mocks":[]}`, ``, `dry run of triage: validation
calls: none
validation error: arguments of "triage" do not match its inputSchema
`},
		{"other code for a saved tool",
			`{"name":"triage","code":"return params.repo + new.x()","params":{"repo":"r"},"mocks":[{"tool":"new.x","text":"y"}]}`,
			``, "dry run of triage: ok\ncalls:\n  1 new.x {} -> \"y\" (MS, took MS)\nresult: \"ry\"\n"},
		{"code alone",
			`{"code":"return [git_hub.search(), git_hub.search()]","mocks":[{"tool":"git-hub.search","text":"{\"a\":1}","times":1},{"tool":"git-hub.search","returns":null,"delay":1}]}`,
			``, "dry run of eval_starlark: ok\ncalls:\n  1 git-hub.search {} -> {\"a\":1} (MS, took MS)\n  2 git-hub.search {} -> null (MS, took MS)\nresult: [{\"a\":1},null]\n"},
		{"a saved tool that another one calls",
			`{"name":"outer","mocks":[{"tool":"git-hub.search","result":{"structuredContent":{"total":2}}},{"tool":"git-hub.label","error":{"code":-1,"message":"no"}}]}`,
			``, "dry run of outer: ok\ncalls:\n  1 tools.triage {\"repo\":\"r\"} -> 2 (MS, took MS)\n  1.1 git-hub.search {\"repo\":\"r\"} -> {\"total\":2} (MS, took MS)\n" +
				"  1.2 git-hub.label {\"n\":2} -> tool error: no (MS, took MS)\nlogs:\n  triage: no\nresult: 3\n"},
		{"no mocks", `{"code":"return git_hub.search()"}`, ``, `dry run of eval_starlark: tool
calls:
  1 git-hub.search {} -> tool error: no mock answers git-hub.search: there are no mocks (MS, took MS)
tool error: git-hub.search: no mock answers git-hub.search: there are no mocks
  at eval_starlark:1:22
    return git_hub.search()
                         ^
calls without a mock:
  no mock answers git-hub.search: there are no mocks
`},
		{"a tool that is none", `{"name":"triag"}`, ``, `validation error: no saved tool is called "triag" (did you mean triage?)`},
		{"mocks that are wrong",
			`{"code":"1","mocks":[{"tool":"a.b"},{"tool":"a.b","returns":1,"raises":"x"},{"tool":"tools.x","returns":1},{"tool":"a.b","returns":1,"delay":"5"}]}`,
			``, `validation error: the mocks are not right
  /mocks/0: has no answer (give it one of returns, text, result, raises, error and denied)
  /mocks/1: has more than one answer (one of returns, text, result, raises, error and denied)
  /mocks/2/tool: is a saved tool; saved tools really run, so mock the tools that they call
  /mocks/3/delay: "5" has no unit (write "30s", or "30ms" for milliseconds)`},
		{"neither name nor code", `{"mocks":[]}`, ``, `validation error: arguments of "test_tool" do not match its inputSchema
  /: matches none of 2 alternatives: missing property "name"; or missing property "code"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.fixture.t = t
			if got := s.text("test_tool", tt.arguments); got != tt.text {
				t.Errorf("text:\n%s\nwant\n%s", got, tt.text)
			}
			reply := s.call("test_tool", tt.arguments)
			if _, ok := wire.Get(reply.Result, "_meta", compose.ReceiptKey, "run"); ok {
				t.Errorf("the receipt names a run that is not in the journal: %s", reply.Result)
			}
			structured, _ := wire.Get(reply.Result, "structuredContent")
			if got := duration.ReplaceAllString(string(structured), `"executionTime":MS`); tt.structured != "" && got != tt.structured {
				t.Errorf("structured:\n%s\nwant\n%s", got, tt.structured)
			}
		})
	}
	if runs, _ := s.runs.list(t.Context(), everything(s)); len(runs) > 0 {
		t.Errorf("dry runs are among the runs: %d", len(runs))
	}
	if def, _ := s.store.Get("triage"); strings.Contains(def.Code, "new.x") {
		t.Error("a dry run has changed a saved tool")
	}
}

// TestTestToolIsDry checks that a dry run reaches no upstream, and that calls that do
// not match the tool's schema are reported.
func TestTestToolIsDry(t *testing.T) {
	s := newRunFixture(t)
	s.catalog.SetUpstream("git-hub", wire.Tools, [][]byte{[]byte(`{"name":"search","inputSchema":{"type":"object","required":["q"]}}`)}, nil)
	reply := s.call("test_tool", `{"code":"return git_hub.search(x=1)","mocks":[{"tool":"git-hub.search","returns":1}]}`)
	if text := textOf(t, reply); !strings.Contains(text, "the arguments do not match the tool's inputSchema") {
		t.Errorf("%s", text)
	}
	// The echo upstream would answer the call that has no mock.
	if text := s.text("test_tool", `{"code":"return git_hub.search(q=1)"}`); !strings.Contains(text, "there are no mocks") {
		t.Errorf("%s", text)
	}
}

// TestTestToolProgress checks that progress and _meta are as in a call of the tool.
func TestTestToolProgress(t *testing.T) {
	s := newRunFixture(t)
	var seen []string
	reply := s.handler.CallTool(t.Context(), "test_tool", route.Call{
		Origin: client{id: "one"}, Progress: func(p []byte) { seen = append(seen, string(p)) },
		Params: []byte(`{"name":"test_tool","arguments":{"code":"progress(1, total=2, message='half')\nreturn 1"},"_meta":{"progressToken":7}}`),
	})
	if len(seen) != 1 || !strings.Contains(seen[0], "half") {
		t.Errorf("progress = %q, reply %s", seen, reply.Result)
	}
}

func TestWithoutThem(t *testing.T) {
	h := newFixture(t)
	for _, tool := range []string{"test_tool", "list_runs", "show_run"} {
		if Reserved(tool) != tool {
			t.Errorf("%s is free to be taken", tool)
		}
		if _, there := h.catalog.Tool(tool); there {
			t.Errorf("%s is there without anything behind it", tool)
		}
	}
}

var duration = regexp.MustCompile(`"executionTime":[\d.]+`)

func everything(s *runFixture) journal.Filter { return journal.Filter{Session: s.session} }
