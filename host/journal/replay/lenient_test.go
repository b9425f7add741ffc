package replay

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// TestChangedCode replays records with other code.
func TestChangedCode(t *testing.T) {
	saved := savedTools{
		"inner": definition("inner", "print('in')\nreturn demo.echo({'n': params.n, 'm': 1}).n"),
		"other": definition("other", "return 1"),
	}
	const code = `
a = demo.search(q="x", page=1)
b = tools.inner(n=2)
for i in range(2):
    demo.echo(i=i)
undo(other.remove, n=1)
try:
    demo.strict(n="1")
except Error as e:
    print(e.message)
return a.totel`
	rec := record(t, job{name: "broken", def: definition("job", code), saved: saved})
	if !strings.Contains(rec.Outcome.Message, "totel") {
		t.Fatalf("the recorded run: %+v", rec.Outcome)
	}
	for _, tt := range []struct {
		name, code string
		want       Verdict
		says       []string
	}{
		{"the fix", strings.Replace(code, "totel", "total_count", 1), Succeeded,
			[]string{": succeeded\nresult:\n2\n", "outcome, against the record:\n", "+result 2", `logs:
  info: the arguments do not match`}},
		{"not fixed", strings.Replace(code, "totel", "totals", 1), Failed, []string{": failed\nruntime error: ", "totals", "  at job:11:"}},
		{"the same", code, Failed, []string{": failed\nruntime error: "}},
		{"arguments in another order", "return demo.search(page=1, q='x').total_count", Succeeded, []string{"result:\n2\n"}},
		{"by its real name", "return demo['search']({'page':1, 'q':'x'}).total_count", Succeeded, []string{"result:\n2\n"}},
		{"raw", "return demo.search.raw(page=1, q='x')._meta", Succeeded, []string{`"x/y": 1`}},
		{"other arguments", "return demo.search(q='y').total_count", Succeeded,
			[]string{`note: demo.search({"q":"y"}) is answered with the answer to call 1, demo.search({"q":"x","page":1})`, "result:\n2\n"}},
		{"the calls of one tool, by their arguments first", "return [demo.echo(i=1).i, demo.echo(i=0).i]", Succeeded, []string{"result:\n[\n  1,\n  0\n]\n"}},
		{"no answer twice", "demo.echo(i=0)\ndemo.echo(i=1)\nprint('third')\ntry:\n    demo.echo(i=1)\nexcept Error: pass", Failed,
			[]string{"the record has no answer for a call of the changed code: demo.echo({\"i\":1})\n  at job:5:14", "info: third"}},
		{"a tool that was not called", "return demo.other()", Failed, []string{"no answer for a call of the changed code: demo.other({})\n  at job:1:18"}},
		{"a mistake in arguments stands for those only", "return demo.strict(n=1)", Failed, []string{"no answer for a call of the changed code: demo.strict({\"n\":1})"}},
		{"a saved tool", "return [tools.inner(n=2)]", Succeeded, []string{"result:\n[\n  2\n]\n"}},
		{"a saved tool, raw", "return tools.inner.raw(n=2).structuredContent.result", Succeeded, []string{"result:\n2\n"}},
		{"a saved tool, asked something else", "return tools.inner(n=5)", Succeeded,
			[]string{`note: call of tools.inner: demo.echo({"n":5,"m":1}) is answered with the answer to call 1, demo.echo({"n":2,"m":1})`, "result:\n2\n"}},
		{"an undo", "undo(other.remove, n=1)\nundo(demo.echo, i=9)\nfail('no')", Failed, []string{"runtime error: no"}},
		{"an undo of a tool that nobody knows", "undo(other.destroy, n=1)", Succeeded, []string{"note: undo of other.destroy({\"n\":1}): the record does not know this tool"}},
		{"syntax", "x = ", Failed, []string{"validation error: syntax error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := replayed(t, rec, Options{Code: &tt.code})
			text := r.Text()
			if r.Verdict != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
			for _, says := range tt.says {
				if !strings.Contains(text, says) {
					t.Errorf("%s\ndoes not say %q", text, says)
				}
			}
		})
	}
}

// TestChangedSteps checks that a report names each step of changed code that is another one than
// before, whatever part of the step it is.
func TestChangedSteps(t *testing.T) {
	saved := savedTools{"inner": definition("inner", "undo(other.remove, n=params.n)\nif params.n > 2: commit()\nreturn params.n")}
	const code = `
a = demo.echo({"n": 1}, timeout=5, meta={"x/y": 1})
undo(other.remove, n=1)
undo(other.remove, n=2)
commit()
undo(other.remove, {"n": 3}, timeout=3)
tools.inner(n=2)
return a`
	rec := record(t, job{name: "steps", def: definition("steps", code), saved: saved})
	if rec.Outcome.Error != "" {
		t.Fatalf("the recorded run: %+v", rec.Outcome)
	}
	for _, tt := range []struct {
		name     string
		old, new string
		says     []string // nothing if the report has no differences
	}{
		{"nothing", "", "", nil},
		{"more white space", "n=1)\nundo", "n=1)\n\n\nundo", nil},
		{"another timeout", "timeout=5", "timeout=6", []string{"calls, against", `-demo.echo({"n":1}), timeout 5 s, meta {"x/y":1}`, "+demo.echo({\"n\":1}), timeout 6 s, meta"}},
		{"no timeout", "timeout=5, ", "", []string{"calls, against", "-demo.echo", `+demo.echo({"n":1}), meta`}},
		{"another meta", `"x/y": 1`, `"x/y": 2`, []string{"calls, against", `+demo.echo({"n":1}), timeout 5 s, meta {"x/y":2}`}},
		{"no meta", `, meta={"x/y": 1}`, "", []string{"calls, against", "+demo.echo({\"n\":1}), timeout 5 s\n"}},
		{"no undo", "undo(other.remove, n=2)\n", "", []string{"undo, against", `-other.remove({"n":2})`}},
		{"no last undo", `undo(other.remove, {"n": 3}, timeout=3)`, "pass", []string{"undo, against", `-other.remove({"n":3})`}},
		{"another undo", "undo(other.remove, n=2)", "undo(other.remove, n=4)", []string{`-other.remove({"n":2})`, `+other.remove({"n":4})`}},
		{"an undo more", "commit()", "undo(other.remove, n=9)\ncommit()", []string{`+other.remove({"n":9})`}},
		{"another timeout of an undo", "timeout=3", "timeout=4", []string{`-other.remove({"n":3}), timeout 3 s`, `+other.remove({"n":3}), timeout 4 s`}},
		{"undo in another order", "undo(other.remove, n=1)\nundo(other.remove, n=2)", "undo(other.remove, n=2)\nundo(other.remove, n=1)", []string{"undo, against"}},
		{"no commit", "commit()\n", "", []string{"undo, against", "-commit()"}},
		{"a later commit", "commit()\nundo(other.remove, {\"n\": 3}, timeout=3)\n", "undo(other.remove, {\"n\": 3}, timeout=3)\ncommit()\n", []string{"-commit()", "+commit()"}},
		{"a commit more", "return a", "commit()\nreturn a", []string{"+commit()"}},
		{"a commit of a saved tool", "inner(n=2)", "inner(n=3)", []string{`+call of tools.inner: other.remove({"n":3})`, "+call of tools.inner: commit()"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(code, tt.old, tt.new, 1)
			r := replayed(t, rec, Options{Code: &changed})
			text := r.Text()
			if r.Verdict != Succeeded || tt.says == nil && len(r.Differences) > 0 {
				t.Error(text)
			}
			for _, says := range tt.says {
				if !strings.Contains(text, says) {
					t.Errorf("%s\ndoes not say %q", text, says)
				}
			}
		})
	}
}

// TestChangedCodeOfUnfinished checks that recorded calls without an answer are not used as
// answers.
func TestChangedCodeOfUnfinished(t *testing.T) {
	rec := record(t, job{def: definition("job", "demo.echo(n=1)\ndemo.cancel()")})
	code := "return [demo.echo(n=1).n, demo.cancel()]"
	if r := replayed(t, rec, Options{Code: &code}); r.Missing == nil || r.Missing.Tool != "cancel" {
		t.Error(r.Text())
	}
	rec.Done, rec.Outcome = false, journal.Outcome{}
	code = "return demo.echo(n=1).n"
	if r := replayed(t, rec, Options{Code: &code}); r.Verdict != Succeeded || !strings.Contains(r.Text(), "-none: the run did not end") {
		t.Error(r.Text())
	}
}
