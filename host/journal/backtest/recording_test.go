package backtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// secrets is a journal.Redactor.
type secrets struct{}

func (secrets) Text(s string) (string, bool) {
	return strings.ReplaceAll(s, "hunter2", journal.Masked), strings.Contains(s, "hunter2")
}

func (secrets) JSON(raw []byte) ([]byte, bool) {
	s, changed := secrets{}.Text(string(raw))
	return []byte(s), changed
}

// recording is a journal that a test writes.
type recording struct {
	t   *testing.T
	dir string
	now time.Time
	log *journal.Log
}

func record(t *testing.T) *recording {
	j := &recording{t: t, dir: t.TempDir(), now: noon}
	j.log = j.process()
	return j
}

// process opens the journal as another process would.
func (j *recording) process() *journal.Log {
	l := journal.OpenLog(j.dir, journal.LogOptions{Redactor: secrets{}, Required: true, Now: func() time.Time { return j.now }})
	j.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			j.t.Error(err)
		}
	})
	return l
}

// at sets the time, in seconds after noon.
func (j *recording) at(seconds float64) *recording {
	j.now = noon.Add(time.Duration(seconds * float64(time.Second)))
	return j
}

var agent = journal.Client{Session: "s1", Name: "agent"}

// call records a call of a client without a script. target is SERVER.TOOL.
func (j *recording) call(client journal.Client, target, args string, change ...func(*journal.Proxied)) {
	server, tool, _ := strings.Cut(target, ".")
	p := journal.Proxied{Start: j.now, Duration: time.Second, Client: client, Server: server, Tool: tool, Outcome: journal.OK}
	if args != "" {
		p.Params = fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, args)
	}
	for _, f := range change {
		f(&p)
	}
	j.log.Proxied(p)
}

// decided sets what policy decided at the time.
func decided(a policy.Action) func(*journal.Proxied) {
	return func(p *journal.Proxied) {
		p.Decision = &journal.Decision{Action: string(a), Rule: "old"}
		if a == policy.Deny {
			p.Outcome = journal.ProxiedDenied
		}
	}
}

// kind makes it a request of another kind, for what name says.
func kind(k policy.Kind, name, params string) func(*journal.Proxied) {
	return func(p *journal.Proxied) {
		p.Kind, p.Tool, p.Params = string(k), name, []byte(params)
	}
}

// run begins a run of a saved tool; "": of code that is not saved.
func (j *recording) run(client journal.Client, tool, params string, change ...func(*journal.Begin)) *journal.Run {
	b := journal.Begin{Definition: tools.Definition{Name: tool, Code: "return 1"}, Saved: true, Params: []byte(params), Client: client}
	if tool == "" {
		b.Definition.Name, b.Saved = "eval_starlark", false
	}
	for _, f := range change {
		f(&b)
	}
	r, err := j.log.Open(b)
	if err != nil {
		j.t.Fatal(err)
	}
	return r
}

func open(r *journal.Run, target, args string) *journal.Call {
	server, tool, _ := strings.Cut(target, ".")
	return r.OpenCall(abi.ToolCall{Server: server, Tool: tool, Arguments: []byte(args)}, server, tool)
}

// made records a call of a script, with its answer.
func made(r *journal.Run, target, args string) {
	open(r, target, args).Close(journal.Answer{Result: []byte(`{"content":[]}`), Value: []byte("null")})
}

// failed records a call that ended with an error of that class.
func failed(r *journal.Run, target string, class abi.ErrorType) {
	open(r, target, "{}").Close(journal.Answer{Err: &abi.CallError{Type: class, Message: "no"}})
}

func end(r *journal.Run) { r.Close(journal.Outcome{Result: []byte("1")}) }

// asks ends a run to ask the client something.
func asks(r *journal.Run) { r.Close(journal.Outcome{Error: abi.ErrCancelled, Asks: true}) }

// nested records the call of a saved tool by a script; inside makes the calls in it.
func (j *recording) nested(r *journal.Run, tool string, inside func(*journal.Run), change ...func(*journal.Begin)) {
	c := open(r, "tools."+tool, "{}")
	change = append(change, func(b *journal.Begin) { b.Parent = &journal.Parent{Run: r.ID(), Call: c.Seq()} })
	inner := j.run(journal.Client{}, tool, "{}", change...)
	inside(inner)
	rec := inner.Record()
	a := journal.Answer{Value: []byte("1"), Run: &rec}
	if rec.Outcome.Asks {
		a = journal.Answer{Run: &rec, Err: &abi.CallError{Type: abi.ErrCancelled, Message: "asks"}}
	}
	c.Close(a)
}

// read returns what the journal has, and how many lines of it cannot be read.
func (j *recording) read() (runs []journal.Record, calls []journal.Proxied, damaged int) {
	note := func(err error) {
		var line *journal.LineError
		if !errors.As(err, &line) {
			j.t.Error(err)
		}
		damaged++
	}
	for r, err := range journal.Scan(j.t.Context(), j.dir, journal.Filter{}) {
		if err != nil {
			note(err)
			continue
		}
		Strip(&r)
		runs = append(runs, r)
	}
	for p, err := range journal.ScanProxied(j.t.Context(), j.dir, journal.Filter{}) {
		if err == nil {
			calls = append(calls, p)
		}
	}
	return runs, calls, damaged
}

// known has the definitions of all tools but those of the server "gone".
func known(server, tool string) []byte {
	switch {
	case server == "gone":
		return nil
	case strings.HasPrefix(tool, "get_"):
		return fmt.Appendf(nil, `{"name":%q,"annotations":{"readOnlyHint":true}}`, tool)
	}
	return fmt.Appendf(nil, `{"name":%q}`, tool)
}

// judged judges the journal, and returns a line for each verdict.
func (j *recording) judged(rules ...policy.Rule) (lines []string, sum Counts) {
	p, errs := compile.Rules(policy.Allow, rules...)
	if len(errs) > 0 {
		j.t.Fatal(errs)
	}
	runs, calls, _ := j.read()
	for _, g := range Judge(p, runs, calls, known) {
		if g.ID == "" || g.Start.IsZero() {
			j.t.Errorf("group %+v", g)
		}
		sum.Add(g.Count())
		for _, v := range g.Verdicts {
			what := fmt.Sprintf("%s %s", v.Decision.Action, v.Decision.Rule)
			switch {
			case v.Unmade:
				what = "not made"
			case v.Doubt != nil:
				what = "unknown: " + v.Doubt.String()
			}
			if v.Recorded != nil {
				what += fmt.Sprintf(" (was %s)", v.Recorded.Action)
			}
			by := ""
			if v.Script != "" {
				by = v.Script + " > "
			}
			lines = append(lines, by+v.Target()+": "+what)
		}
	}
	return lines, sum
}

func when(condition string, action policy.Action, targets ...string) policy.Rule {
	return policy.Rule{Name: "r", Tools: targets, When: condition, Action: action}
}
