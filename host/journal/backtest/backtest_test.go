package backtest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	ci, other := journal.Client{Session: "s1", Name: "agent", Token: "ci"}, journal.Client{Session: "s2", Name: "other"}
	continues := func(r *journal.Run) func(*journal.Begin) {
		return func(b *journal.Begin) { b.Continues = r.ID() }
	}
	for name, test := range map[string]struct {
		rules  []policy.Rule
		record func(j *recording)
		want   []string
	}{
		"runs and calls": {
			[]policy.Rule{
				{Name: "production", Tools: []string{"github.merge"}, When: `args.repo.startsWith("prod/")`, Action: policy.Ask},
				{Name: "code", Tools: []string{"builtin.eval_starlark"}, When: `args.code == "return 1" && args.params.n == 1`, Action: policy.Deny},
				{Name: "report", Tools: []string{"tools.report"}, When: `args.n == 2`, Action: policy.Ask},
				{Name: "scripts", Tools: []string{"web.*"}, When: `script == "report"`, Action: policy.Deny},
			},
			func(j *recording) {
				r := j.run(agent, "report", `{"n":2}`)
				made(r, "github.merge", `{"repo":"prod/x"}`)
				made(r, "github.merge", `{"repo":"dev/x"}`)
				made(r, "web.post", `{}`)
				end(r)
				end(j.at(1).run(agent, "", `{"n":2}`))
				end(j.at(2).run(agent, "", `{"n":1}`))
				j.at(3).call(agent, "github.merge", `{"repo":"prod/x"}`)
				j.at(4).call(agent, "web.post", `{}`)
			},
			[]string{
				"tools.report: ask report", "report > github.merge: ask production", "report > github.merge: allow default",
				"report > web.post: deny scripts", "builtin.eval_starlark: allow default", "builtin.eval_starlark: deny code",
				"github.merge: ask production", "web.post: allow default",
			},
		},
		"calls.minute, while a run lasts": {
			[]policy.Rule{when("calls.minute >= 2", policy.Deny, "a.*"), when("calls.tool.minute >= 1", policy.Ask, "b.*")},
			func(j *recording) {
				r := j.run(agent, "long", "{}")
				j.at(10).call(other, "a.x", "{}") // second
				j.at(20).call(other, "a.x", "{}") // third
				j.at(70).call(other, "b.x", "{}")
				j.at(71).call(other, "b.y", "{}")
				j.at(72).call(other, "b.y", "{}")
				j.at(200)
				made(r, "a.x", "{}") // first in that minute
				made(r, "a.x", "{}")
				end(r)
			},
			[]string{
				"tools.long: allow default", "long > a.x: allow default", "long > a.x: allow default", "a.x: allow default", "a.x: deny r",
				"b.x: allow default", "b.y: allow default", "b.y: ask r",
			},
		},
		"calls.run": {
			[]policy.Rule{when("calls.run >= 2", policy.Deny), when("calls.tool.run >= 1", policy.Ask)},
			func(j *recording) {
				r := j.run(agent, "x", "{}")
				made(r, "a.x", "{}")
				made(r, "a.x", "{}")
				made(r, "a.y", "{}")
				end(r)
				r = j.at(1).run(agent, "x", "{}")
				made(r, "a.x", "{}")
				end(r)
			},
			[]string{
				"tools.x: allow default", "x > a.x: allow default", "x > a.x: ask r", "x > a.y: deny r",
				"tools.x: allow default", "x > a.x: allow default",
			},
		},
		"calls.session": {
			[]policy.Rule{when("calls.session >= 2", policy.Ask, "a.*"), when("calls.tool.session >= 1", policy.Deny, "a.*")},
			func(j *recording) {
				j.call(agent, "a.x", "{}")
				j.at(1).call(agent, "a.x", "{}") // does not count
				j.at(2).call(agent, "a.y", "{}")
				j.at(3).call(agent, "a.y", "{}")
				j.at(4).call(other, "a.x", "{}")
			},
			[]string{"a.x: allow default", "a.x: deny r", "a.y: allow default", "a.y: ask r", "a.x: allow default"},
		},
		"called before": {
			[]policy.Rule{
				when(`"secrets.read" in run.called`, policy.Deny, "web.*"), when(`"secrets.read" in session.called`, policy.Ask, "web.*"),
				when(`"secrets" in session.servers`, policy.Ask, "mail.*"),
			},
			func(j *recording) {
				j.call(agent, "web.post", "{}")
				r := j.at(1).run(agent, "x", "{}")
				made(r, "secrets.read", "{}")
				j.nested(r, "inner", func(inner *journal.Run) {
					made(inner, "web.post", "{}")
					end(inner)
				})
				end(r)
				j.at(2).call(agent, "web.post", "{}")
				j.at(3).call(agent, "mail.send", "{}")
				j.at(4).call(other, "web.post", "{}")
			},
			[]string{
				"web.post: allow default", "tools.x: allow default", "x > secrets.read: allow default", "x > tools.inner: allow default",
				"inner > web.post: deny r", "web.post: ask r", "mail.send: ask r", "web.post: allow default",
			},
		},
		"labels of the session": {
			[]policy.Rule{when("session.private && session.untrusted", policy.Deny, "a.*")},
			func(j *recording) {
				j.call(agent, "a.x", "{}")
				j.at(1).call(agent, "b.x", "{}")
			},
			[]string{`a.x: unknown: rule "r" reads what the session had been given, which is not recorded`, "b.x: allow default"},
		},
		"clients and tokens": {
			[]policy.Rule{
				{Name: "ci", Clients: []string{"ci"}, Action: policy.Ask}, when(`client.token`, policy.Deny),
				{Name: "agents", Clients: []string{"agent"}, Action: policy.Deny},
			},
			func(j *recording) {
				j.call(agent, "a.x", "{}")
				j.at(1).call(ci, "a.x", "{}")
				j.at(2).call(journal.Client{Session: "s3", Name: "ci"}, "a.x", "{}") // says so, without a token
				j.at(3).call(journal.Client{Session: "s4", Name: "agent", Token: "other"}, "a.x", "{}")
				r := j.at(4).run(ci, "x", "{}")
				j.nested(r, "inner", func(inner *journal.Run) {
					made(inner, "a.x", "{}")
					end(inner)
				})
				end(r)
				j.at(5).call(other, "a.x", "{}")
			},
			[]string{
				"a.x: deny agents", "a.x: ask ci", "a.x: ask ci", "a.x: deny r", "tools.x: ask ci", "x > tools.inner: ask ci",
				"inner > a.x: ask ci", "a.x: allow default",
			},
		},
		"the minute is that of a token": {
			[]policy.Rule{when("calls.minute >= 1", policy.Deny)},
			func(j *recording) {
				j.call(agent, "a.x", "{}")
				j.at(1).call(ci, "a.x", "{}")
				j.at(2).call(other, "a.x", "{}")
			},
			[]string{"a.x: allow default", "a.x: allow default", "a.x: deny r"},
		},
		"arguments that are not known": {
			[]policy.Rule{when(`args.password == "hunter2"`, policy.Deny, "a.*")},
			func(j *recording) {
				j.call(agent, "a.x", "")
				j.at(1).call(agent, "b.x", "")
				j.at(2).call(agent, "a.x", `{"password":"hunter2"}`)
				j.at(3).call(agent, "a.x", `{"password":"none"}`)
				r := j.at(4).run(agent, "x", `{}`)
				made(r, "a.x", `{"password":"hunter2"}`)
				made(r, "a.x", `{"password":"none"}`)
				end(r)
			},
			[]string{
				`a.x: unknown: rule "r" reads the arguments, which were not recorded`, "b.x: allow default",
				`a.x: unknown: rule "r" reads the arguments, which were redacted`, "a.x: allow default", "tools.x: allow default",
				`x > a.x: unknown: rule "r" reads the arguments, which were redacted`, "x > a.x: allow default",
			},
		},
		"definitions": {
			[]policy.Rule{when("!tool.annotations.readOnlyHint", policy.Ask, "a.*", "gone.*"), when("calls.session >= 4", policy.Deny)},
			func(j *recording) {
				j.call(agent, "a.get_x", "{}")
				j.at(1).call(agent, "a.put_x", "{}")
				j.at(2).call(agent, "gone.get_x", "{}") // counts
				j.at(3).call(agent, "b.x", "{}")
				j.at(4).call(agent, "b.x", "{}")
			},
			[]string{
				"a.get_x: allow default", "a.put_x: ask r", `gone.get_x: unknown: rule "r" reads the definition, which is not known`,
				"b.x: allow default", "b.x: deny r",
			},
		},
		"a call that would have been stopped": {
			[]policy.Rule{when("", policy.Deny, "a.write"), when(`"a.write" in run.called || calls.session > 3`, policy.Deny, "a.after")},
			func(j *recording) {
				r := j.run(agent, "x", "{}")
				made(r, "a.before", "{}")
				made(r, "a.write", "{}")
				made(r, "a.after", "{}")
				end(r)
			},
			[]string{"tools.x: allow default", "x > a.before: allow default", "x > a.write: deny r", "x > a.after: allow default"},
		},
		"a run that would have been stopped": {
			[]policy.Rule{when("", policy.Deny, "tools.outer", "tools.inner"), when("calls.session > 2", policy.Deny)},
			func(j *recording) {
				r := j.run(agent, "outer", "{}")
				made(r, "a.x", "{}")
				j.nested(r, "deep", func(inner *journal.Run) {
					made(inner, "a.x", "{}")
					end(inner)
				})
				end(r)
				r = j.at(1).run(agent, "x", "{}")
				j.nested(r, "inner", func(inner *journal.Run) {
					made(inner, "a.x", "{}")
					end(inner)
				})
				made(r, "a.x", "{}")
				end(r)
				j.at(2).call(agent, "a.x", "{}")
			},
			[]string{
				"tools.outer: deny r", "outer > a.x: not made", "outer > tools.deep: not made", "deep > a.x: not made",
				"tools.x: allow default", "x > tools.inner: deny r", "inner > a.x: not made", "x > a.x: allow default", "a.x: allow default",
			},
		},
		"a run that has not ended": {
			[]policy.Rule{when("", policy.Ask, "a.*")},
			func(j *recording) {
				r := j.run(agent, "x", "{}")
				made(r, "a.x", "{}")
				open(r, "a.y", "{}")
			},
			[]string{"tools.x: allow default", "x > a.x: ask r", "x > a.y: ask r"},
		},
		"a run that continues another": {
			[]policy.Rule{when("calls.run >= 3", policy.Deny), when("", policy.Ask, "tools.*")},
			func(j *recording) {
				first := j.run(agent, "x", "{}")
				made(first, "a.one", "{}")
				var inner *journal.Run
				j.nested(first, "inner", func(r *journal.Run) {
					inner = r
					made(r, "a.two", "{}")
					asks(r)
				})
				asks(first)
				second := j.at(9).run(agent, "x", "{}", continues(first))
				made(second, "a.one", "{}")
				j.nested(second, "inner", func(r *journal.Run) {
					made(r, "a.two", "{}")
					made(r, "a.three", "{}")
					end(r)
				}, continues(inner))
				end(second)
			},
			[]string{"tools.x: ask r", "x > a.one: allow default", "x > tools.inner: ask r", "inner > a.two: allow default", "inner > a.three: deny r"},
		},
		"calls that were not made": {
			[]policy.Rule{when("", policy.Ask, "a.*")},
			func(j *recording) {
				r := j.run(agent, "x", "{}")
				failed(r, "a.nosuch", abi.ErrRuntime)
				failed(r, "a.wrong", abi.ErrValidation)
				failed(r, "a.late", abi.ErrTimeout)
				failed(r, "a.denied", abi.ErrPermission)
				end(r)
			},
			[]string{"tools.x: allow default", "x > a.late: ask r", "x > a.denied: ask r"},
		},
		"what policy decided at the time": {
			[]policy.Rule{when("", policy.Ask, "a.x")},
			func(j *recording) {
				j.call(agent, "a.x", "{}", decided(policy.Deny))
				j.at(1).call(agent, "b.x", "{}", decided(policy.Ask))
				r := j.at(2).run(agent, "x", "{}")
				open(r, "b.x", "{}").Close(journal.Answer{
					Decision: &journal.Decision{Action: string(policy.Deny), Rule: "old"}, Err: &abi.CallError{Type: abi.ErrPermission, Message: "no"},
				})
				end(r)
			},
			[]string{"a.x: ask r (was deny)", "b.x: allow default (was ask)", "tools.x: allow default", "x > b.x: allow default (was deny)"},
		},
		"runs that somebody was asked for": {
			[]policy.Rule{when("calls.session >= 2", policy.Deny, "a.*")},
			func(j *recording) {
				j.call(agent, "tools.x", "{}", decided(policy.Ask)) // and then the run
				end(j.at(0.5).run(agent, "x", "{}"))
				j.at(2).call(agent, "a.x", "{}")
				j.at(3).call(agent, "tools.x", "{}", decided(policy.Deny))
				end(j.at(3.5).run(agent, "x", "{}"))
				j.at(4).call(agent, "builtin.list_runs", "{}", decided(policy.Ask))
				j.at(5).call(agent, "builtin.eval_starlark", `{"code":"return 1"}`, decided(policy.Ask))
				end(j.at(5.5).run(other, "", "{}"))
				end(j.at(5.6).run(agent, "", "{}"))
			},
			[]string{
				"tools.x: allow default (was ask)", "a.x: allow default", "tools.x: allow default (was deny)", "tools.x: allow default",
				"builtin.list_runs: allow default (was ask)", "builtin.eval_starlark: allow default", "builtin.eval_starlark: allow default (was ask)",
			},
		},
		"other requests": {
			[]policy.Rule{
				{Name: "files", Resources: []string{"file:///secret/*"}, When: `!("x" in args)`, Action: policy.Deny},
				{Name: "prompts", Prompts: []string{"a.p"}, When: `args.n == "1"`, Action: policy.Ask},
				{Name: "completions", Completions: []string{"a.*"}, When: `args.argument.name == "path"`, Action: policy.Deny},
				when("", policy.Deny, "a.*"),
			},
			func(j *recording) {
				j.call(agent, "a.x", "", kind(policy.KindResource, "file:///secret/x", `{"uri":"file:///secret/x"}`), decided(policy.Deny))
				j.at(1).call(agent, "a.x", "", kind(policy.KindResource, "file:///secret/y", ""), decided(policy.Deny)) // proxied = "summary"
				j.at(2).call(agent, "a.x", "", kind(policy.KindPrompt, "p", `{"name":"p","arguments":{"n":"1"}}`), decided(policy.Deny))
				j.at(3).call(agent, "a.x", "", kind(policy.KindPrompt, "p", ""), decided(policy.Deny))
				j.at(4).call(agent, "a.x", "", kind(policy.KindCompletion, "p", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"path","value":""}}`), decided(policy.Ask))
			},
			[]string{
				"a.file:///secret/x: deny files (was deny)", "a.file:///secret/y: deny files (was deny)", "a.p: ask prompts (was deny)",
				`a.p: unknown: rule "prompts" reads the arguments, which were not recorded (was deny)`, "a.p: deny completions (was ask)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := record(t)
			test.record(j)
			if got, _ := j.judged(test.rules...); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestCounts checks the sums, with the reasons why calls cannot be judged.
func TestCounts(t *testing.T) {
	t.Parallel()
	j := record(t)
	for i, target := range []string{"allow.x", "ask.x", "ask.x", "deny.x", "reads.x", "gone.x", "gone.x"} {
		j.at(float64(i)).call(agent, target, "")
	}
	j.at(10).call(agent, "reads.x", `{"a":"hunter2"}`)
	j.at(11).call(agent, "reads.x", `{"a":"x"}`)
	r := j.at(12).run(agent, "stopped", "{}")
	made(r, "ask.x", "{}")
	end(r)
	_, got := j.judged(when("", policy.Deny, "tools.stopped", "deny.*"), when("", policy.Ask, "ask.*"),
		when(`args.a == "x"`, policy.Ask, "reads.*"), when("tool.annotations.readOnlyHint", policy.Ask, "gone.*"))
	want := Counts{Allowed: 1, Asked: 3, Denied: 2, Unmade: 1, Doubtful: 4, Why: Reasons{NotRecorded: 1, Redacted: 1, Definition: 2}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSeveralFiles judges what several processes have written at once, with lines that
// cannot be read.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	j := record(t)
	first, second := j.log, j.process()
	for i := range 4 {
		j.at(float64(i)).log = []*journal.Log{first, second}[i%2]
		j.call(agent, "a.x", "{}")
	}
	r := j.at(5).run(agent, "x", "{}")
	made(r, "a.x", "{}")
	j.at(6).log = first
	j.call(agent, "a.y", "{}")
	end(r)
	files, err := filepath.Glob(filepath.Join(j.dir, "*.jsonl"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString("\x00garbage\n" + `{"t":"proxied","run":"019b7ca9-906f-7000-8000-000000000000","v":1,"ti`)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := j.judged(when("calls.session >= 3", policy.Deny, "a.x"))
	want := []string{
		"a.x: allow default", "a.x: allow default", "a.x: allow default", "a.x: deny r", "tools.x: allow default", "x > a.x: deny r",
		"a.y: allow default",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if _, _, damaged := j.read(); damaged == 0 {
		t.Error("no line is damaged")
	}
}
