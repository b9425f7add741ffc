package builtin

import (
	"context"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// client is a session with only a name.
type client struct {
	session
	id string
}

// noPlanner is for lists of tools.
type noPlanner struct{ Planner }

type session interface{ route.Session }

func (c client) Session() route.Session    { return c }
func (c client) ID() string                { return c.id }
func (c client) TokenName() string         { return "" }
func (client) Client() []byte              { return []byte(`{"clientInfo":{"name":"test","version":"1"}}`) }
func (client) LogLevel() string            { return "" }
func (client) Principal() string           { return "" }
func (client) Rights() *bearer.Rights      { return nil }
func (client) Revision() protocol.Revision { return protocol.Handshake.Newest() }

// memory implements Runs with the records that a composer makes.
type memory struct {
	mu   sync.Mutex
	runs []*journal.Run
}

func (m *memory) open(b journal.Begin) (*journal.Run, error) {
	r := journal.Open(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.Parent == nil {
		m.runs = append(m.runs, r)
	}
	return r, nil
}

func (m *memory) Each(_ context.Context, _ any, f journal.Filter, use func(*journal.Record) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := 0
	for _, r := range slices.Backward(m.runs) {
		rec := r.Record()
		if strings.HasPrefix(rec.ID, f.ID) && (f.Tool == "" || rec.Definition.Name == f.Tool) && (f.Outcome == "" || rec.OutcomeName() == f.Outcome) &&
			rec.Client.Session == f.Session && !rec.Start.Before(f.Since) && (f.Limit == 0 || found < f.Limit) {
			if found++; !use(&rec) {
				break
			}
		}
	}
	return nil
}

func (m *memory) list(ctx context.Context, f journal.Filter) (found []journal.Record, err error) {
	err = m.Each(ctx, nil, f, func(r *journal.Record) bool {
		found = append(found, *r)
		return true
	})
	return found, err
}

// runFixture is a fixture with runs and dry runs, as one session sees it.
type runFixture struct {
	*fixture
	session string
	runs    *memory
}

func newRunFixture(t *testing.T) *runFixture {
	h := newFixture(t)
	s := &runFixture{fixture: h, session: "one", runs: &memory{}}
	options := compose.Options{Sandbox: sandboxtest.Guest(t), Catalog: h.catalog, Upstreams: echo{}, Saved: h.store, Log: quiet(), Journal: s.runs.open}
	h.handler = New(Options{
		Store: h.store, Composer: compose.New(options), Catalog: h.catalog, OnChange: h.refresh, Log: quiet(), Runs: s.runs, Planner: noPlanner{},
		DryRunner: func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) Runner {
			o := options
			o.Catalog, o.Upstreams, o.Journal = mocks.Over(h.catalog), mocks, open
			return compose.New(o)
		},
	})
	h.catalog.SetBuiltins(h.handler.Entries())
	return s
}

// call calls a built-in tool, and checks the answer against its outputSchema.
func (s *runFixture) call(tool, arguments string) wire.Reply {
	s.t.Helper()
	reply := s.handler.CallTool(s.t.Context(), tool, route.Call{
		Origin: client{id: s.session}, Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments),
	})
	entry, _ := s.catalog.Tool(tool)
	if _, builtin := wire.Get(entry.Definition, "title"); builtin {
		matches(s.t, entry.Definition, reply)
	}
	return reply
}

var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|at [\d.]+ ms|[\d.]+ ms|fuel \d+|memory \w+|"(?:start|duration|fuel|memory)":[\d.]+`)

// text returns the text for readers, without values that vary.
func (s *runFixture) text(tool, arguments string) string {
	s.t.Helper()
	return changing.ReplaceAllStringFunc(textOf(s.t, s.call(tool, arguments)), func(found string) string {
		switch word, _, _ := strings.Cut(found, " "); {
		case len(found) == 36:
			return "RUN"
		case strings.HasSuffix(found, "Z"):
			return "TIME"
		case strings.HasSuffix(found, " ms"):
			return "MS"
		default:
			return strings.ToUpper(word)
		}
	})
}

func TestRuns(t *testing.T) {
	s := newRunFixture(t)
	if got := s.text("list_runs", `{}`); got != "No such runs in this session." {
		t.Errorf("no runs: %s", got)
	}
	if got := s.text("show_run", `{}`); got != "validation error: no script has run in this session yet" {
		t.Errorf("no run: %s", got)
	}
	s.ok("save_tool", `{"name":"inner","description":"d","inputSchema":{"type":"object"},"code":"print('in')\nreturn git_hub.search(q=params.q)"}`)
	s.call("eval_starlark", `{"code":"print('a')\nx = tools.inner(q=1)\nreturn git_hub.search(y='z')"}`)
	s.call("eval_starlark", `{"code":"git_hub.search({})\nprint('b\\nc')\nfail('gone', details=[1])","params":{"k":"v"}}`)
	s.call("eval_starlark", `{"code":"return git_hub.none()"}`)
	s.session = "two"
	s.call("eval_starlark", `{"code":"return 2"}`)
	s.session = "one"

	const list = `RUN  TIME  eval_starlark  runtime  MS  1 call  git-hub.none: server "git-hub" has no tool "none" (it has search, unseen)
RUN  TIME  eval_starlark  runtime  MS  1 call  gone
RUN  TIME  eval_starlark  ok  MS  2 calls
`
	if got := s.text("list_runs", `{}`); got != list {
		t.Errorf("list:\n%s\nwant\n%s", got, list)
	}
	lines := strings.SplitAfter(list, "\n")
	for arguments, want := range map[string]string{
		`{"outcome":"failed"}`:           lines[0] + lines[1],
		`{"outcome":"ok"}`:               lines[2],
		`{"outcome":"runtime"}`:          lines[0] + lines[1],
		`{"outcome":"timeout"}`:          "No such runs in this session.",
		`{"limit":1}`:                    lines[0] + "There are older ones (limit).\n",
		`{"outcome":"failed","limit":1}`: lines[0] + "There are older ones (limit).\n",
		`{"limit":3,"since":"1h"}`:       list,
		`{"tool":"inner"}`:               "No such runs in this session.",
		`{"since":"5"}`:                  `validation error: since "5" has no unit (write "30s", or "30ms" for milliseconds)`,
	} {
		if got := s.text("list_runs", arguments); got != want {
			t.Errorf("list_runs %s:\n%s\nwant\n%s", arguments, got, want)
		}
	}
	s.showsRuns()
}

// showsRuns checks how the runs of TestRuns are shown.
func (s *runFixture) showsRuns() {
	runs, _ := s.runs.list(s.t.Context(), journal.Filter{Session: "one"})
	params := `{"name":"search","arguments":{"y":"z"}}`
	inner := `{"name":"search","arguments":{"q":1}}`
	for _, tt := range []struct{ arguments, want string }{
		{`{}`, `run RUN of eval_starlark, started TIME: runtime after MS; FUEL, MEMORY
params {}
calls:
  1 git-hub.none {} -> runtime error: server "git-hub" has no tool "none" (it has search, unseen) (MS, took MS)
runtime error: git-hub.none: server "git-hub" has no tool "none" (it has search, unseen)
  at eval_starlark:1:20
    return git_hub.none()
                       ^
`},
		{`{"run":"` + strings.ToUpper(runs[1].ID) + `"}`, `run RUN of eval_starlark, started TIME: runtime after MS; FUEL, MEMORY
params {"k":"v"}
calls:
  1 git-hub.search {} -> {"name":"search","arguments":{}} (MS, took MS)
logs:
  b
  c
runtime error: gone
  at eval_starlark:3:5
    fail('gone', details=[1])
        ^
`},
		{`{"run":"` + runs[2].ID + `"}`, `run RUN of eval_starlark, started TIME: ok after MS; FUEL, MEMORY
params {}
calls:
  1 tools.inner {"q":1} -> ` + inner + ` (MS, took MS)
  1.1 git-hub.search {"q":1} -> ` + inner + ` (MS, took MS)
  2 git-hub.search {"y":"z"} -> ` + params + ` (MS, took MS)
logs:
  a
  inner: in
result: ` + params + "\n"},
		{`{"run":"` + runs[2].ID + `","call":"1.1"}`, `run RUN of eval_starlark, started TIME: ok after MS; FUEL, MEMORY
params {}
calls:
  1.1 git-hub.search {"q":1} -> ` + inner + ` (MS, took MS)
result: ` + params + "\n"},
		{`{"run":"` + runs[2].ID + `","call":"7"}`, `validation error: the run has no call 7; the last one is 2`},
		{`{"run":"` + runs[2].ID[:4] + `"}`, `validation error: run ` + runs[2].ID[:4] + `: several ids begin with this: RUN, RUN (give more of the id)`},
		{`{"run":"ffffffff"}`, `validation error: this session has no run ffffffff (list_runs lists them)`},
	} {
		if got := s.text("show_run", tt.arguments); got != tt.want {
			s.t.Errorf("show_run %s:\n%s\nwant\n%s", tt.arguments, got, tt.want)
		}
	}
	s.session = "two"
	if got := s.text("show_run", `{"run":"`+runs[0].ID+`"}`); !strings.HasPrefix(got, "validation error: this session has no run RUN") {
		s.t.Errorf("another session sees the run: %s", got)
	}
	if got := s.text("list_runs", `{}`); strings.Count(got, "RUN") != 1 {
		s.t.Errorf("another session's list: %s", got)
	}
	s.session = ""
	if got := s.text("list_runs", `{}`); !strings.HasPrefix(got, "validation error: runs are only shown to the session that made them") {
		s.t.Errorf("the list without a session: %s", got)
	}
}

// others returns the runs of all sessions, as a faulty source would.
type others struct{ *memory }

func (o others) Each(ctx context.Context, owner any, f journal.Filter, use func(*journal.Record) bool) error {
	f.Session = "two"
	return o.memory.Each(ctx, owner, f, use)
}

// TestOwnRuns checks that a session sees only its own runs, whatever the source returns.
func TestOwnRuns(t *testing.T) {
	s := newRunFixture(t)
	s.session = "two"
	s.call("eval_starlark", `{"code":"return 2"}`)
	id := s.runs.runs[0].ID()
	s.handler.cfg.Runs = others{s.runs}
	s.session = "one"
	for _, got := range []string{s.text("list_runs", `{}`), s.text("show_run", `{}`), s.text("show_run", `{"run":"`+id+`"}`)} {
		if strings.Contains(got, "eval_starlark") {
			t.Errorf("another session's run: %s", got)
		}
	}
}

// TestLargeRun checks that the text about a large run is limited.
func TestLargeRun(t *testing.T) {
	s := newRunFixture(t)
	s.call("eval_starlark", `{"code":"for i in range(300):\n    git_hub.search(n=i, text='é' * 5000)\n    print('x' * 1000)\nreturn 'y' * 50000"}`)
	reply := s.call("show_run", `{}`)
	if len(reply.Result) > 50_000 {
		t.Errorf("%d bytes", len(reply.Result))
	}
	text := textOf(t, reply)
	for _, want := range []string{"(270 calls left out)", "(270 entries left out)", `  7 git-hub.search {"n":6,`, `  278 git-hub.search {"n":277,`, "… (50002 bytes)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%.3000s", want, text)
		}
	}
	if one := textOf(t, s.call("show_run", `{"call":"150"}`)); !strings.Contains(one, strings.Repeat("é", 5000)) || len(one) > 40_000 {
		t.Errorf("one call: %d bytes", len(one))
	}
}

// TestUnfinishedRun checks that an active run can be shown.
func TestUnfinishedRun(t *testing.T) {
	s := newRunFixture(t)
	r, _ := s.runs.open(journal.Begin{Definition: tools.Definition{Name: "slow"}, Params: []byte(`{}`), Client: journal.Client{Session: "one"}})
	r.OpenCall(asked(`{}`), "git-hub", "search")
	if got, want := s.text("list_runs", `{}`), "RUN  TIME  slow  unfinished  1 call\n"; got != want {
		t.Errorf("%s", got)
	}
	want := "run RUN of slow, started TIME: unfinished\nparams {}\ncalls:\n  1 git-hub.search {} -> no answer before the run ended (MS, took MS)\n" +
		"hint: It is still running, or the server ended before the run did.\n"
	if got := s.text("show_run", `{}`); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestHints checks that errors say what to do if that is known.
func TestHints(t *testing.T) {
	s := newRunFixture(t)
	for code, tt := range map[string]struct {
		timeout time.Duration
		want    string
	}{
		"git_hub.search(fail=True)": {time.Minute, "hint: git-hub.search failed, not the script: "},
		"git_hub.search(wait=True)": {100 * time.Millisecond, "hint: The longest call was 1 (git-hub.search), with MS. "},
		"while True:\n    pass":     {100 * time.Millisecond, "hint: It made no calls: the script itself takes long."},
		"fail('x')":                 {time.Minute, ""},
	} {
		called := false
		for timeout := tt.timeout; !called && timeout <= time.Minute; timeout *= 2 { // on a busy machine, the call may not begin in time
			composer := compose.New(compose.Options{
				Sandbox: sandboxtest.Guest(t), Catalog: s.catalog, Upstreams: failing{&called}, Log: slog.New(slog.DiscardHandler), Journal: s.runs.open, Timeout: timeout,
			})
			composer.Eval(t.Context(), code, nil, route.Call{Origin: client{id: "one"}})
			called = called || !strings.Contains(code, "search")
		}
		got := s.text("show_run", `{}`)
		if _, found, _ := strings.Cut(got, "hint: "); !strings.HasPrefix("hint: "+found, tt.want) || (tt.want == "") != (found == "") {
			t.Errorf("%s: %s", code, got)
		}
	}
}

// failing is an upstream that fails, or does not answer.
type failing struct{ called *bool }

func (failing) Ready(context.Context, route.Origin, string) error { return nil }

func (f failing) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	params := call.Params
	*f.called = true
	if _, wait := wire.Get(params, "arguments", "wait"); wait {
		<-ctx.Done()
	}
	return wire.Reply{Result: route.ErrorResult("down")}
}

func asked(arguments string) abi.ToolCall { return abi.ToolCall{Arguments: []byte(arguments)} }
