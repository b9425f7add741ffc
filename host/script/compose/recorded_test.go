package compose

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// recordedInquiry is an inquiry with a journal on disk.
func recordedInquiry(t *testing.T, redact journal.Redactor) *inquiry {
	disk := journal.OpenLog(t.TempDir(), journal.LogOptions{Log: slog.New(slog.DiscardHandler), Redactor: redact})
	t.Cleanup(func() { _ = disk.Close() })
	return newInquiry(t, func(o *Options) {
		o.Journal, o.Chain, o.Claims = disk.Open, func(id string) (journal.Chain, error) { return disk.Chain(id, nil) }, disk
		o.Recorded = func(id string) (journal.Record, error) { return journal.Find(t.Context(), disk.Dir(), id) }
	})
}

// forget makes a Composer with knowledge of the journal alone.
func (q *inquiry) forget() { q.composer.asked = &Asked{} }

// began makes the call begin a run and returns the reply and the id of the run.
func (q *inquiry) began(def tools.Definition, call route.Call) (reply wire.Reply, run string) {
	call.Began = func(id string, _ time.Time) { run = id }
	if call.Origin == nil {
		call.Origin = asker()
	}
	if call.Params == nil {
		call.Params = params(`{}`)
	}
	if def.Name == EvalName {
		return q.composer.Eval(q.t.Context(), def.Code, []byte(`{"a":1}`), call), run
	}
	return q.composer.CallSaved(q.t.Context(), def, call), run
}

// TestFindRun checks that the journal gives the same result as the run itself.
func TestFindRun(t *testing.T) {
	schema := saved("return params")
	schema.InputSchema, schema.OutputSchema = []byte(`{"type":"object","required":["n"]}`), []byte(`{"type":"object"}`)
	wrong := saved("return {}")
	wrong.OutputSchema = []byte(`{"type":"object","required":["n","m"]}`)
	limited := saved("for i in range(1000): s.other()")
	limited.Limits.Calls = 3
	for name, def := range map[string]tools.Definition{
		"value":       saved("print('log')\nreturn {'n': 1.0, 'big': 9007199254740993}"),
		"text":        saved("return 'text'"),
		"blocks":      saved("print('log')\nreturn [content.image('YQ=='), 'a picture', content.text('b')]"),
		"arguments":   schema,
		"result":      wrong,
		"error":       saved("print('log')\ndef f():\n    fail('no', details={'a': 1})\nf()"),
		"undone":      saved("undo(s.remove, n=1)\nundo(s.gone, n=2)\ns.other(n=1)\nfail('no')"),
		"limit":       limited,
		"of a server": saved("s.wrong()"),
		"code":        {Name: EvalName, Code: "return params.a"},
	} {
		t.Run(name, func(t *testing.T) {
			q := recordedInquiry(t, nil)
			q.up.result("s.gone", `{"content":[{"type":"text","text":"gone"}],"isError":true}`)
			q.up.result("s.wrong", `{"content":[{"type":"text","text":"wrong"}],"structuredContent":{"violations":[{"pointer":"/a","message":"m"}]},"isError":true}`)
			reply, run := q.began(def, route.Call{})
			found, err := q.composer.FindRun(run)
			if err != nil {
				t.Fatal(err)
			}
			live, _ := wire.Delete(reply.Result, "_meta") // the memory of the sandboxes is not the same
			read, _ := wire.Delete(found.Reply.Result, "_meta")
			if string(live) != string(read) {
				t.Errorf("live %s\nread %s", live, read)
			}
			if found.Status != protocol.TaskCompleted || found.Runs != 1 || found.ID != run || found.Start.IsZero() || found.Changed.Before(found.Start) || found.Note != "" {
				t.Errorf("%+v", found)
			}
			if want := `{"name":"job","arguments":{}}`; def.Name != EvalName && (found.Kind != catalog.Composite || string(found.Params) != want) {
				t.Errorf("%v %s", found.Kind, found.Params)
			}
			if want := `{"name":"eval_starlark","arguments":{"code":"return params.a","params":{"a":1}}}`; def.Name == EvalName && (found.Kind != catalog.Builtin || string(found.Params) != want) {
				t.Errorf("%v %s", found.Kind, found.Params)
			}
		})
	}
}

// TestFindRunThatAsks checks that the journal has the questions of a run, also the questions of the
// run's saved tools, and that the run goes on with the answers.
func TestFindRunThatAsks(t *testing.T) {
	q := recordedInquiry(t, nil)
	q.saved["inner"] = tools.Definition{Name: "inner", InputSchema: []byte(`{"type":"object"}`), Code: "return s.ask(q='deep')"}
	def := saved("a = s.ask(q='name')\nreturn [a] + parallel([lambda: s.ask(q='x'), lambda: tools.inner(), s.twice])")
	reply, first := q.began(def, route.Call{})
	for round := 1; round <= 2; round++ {
		found, err := q.composer.FindRun(first)
		if err != nil || found.Status != protocol.TaskInputRequired || found.Runs != round || sorted(found.Reply) != sorted(reply) {
			t.Fatalf("round %d: %v %+v\nlive %s\nread %s", round, err, found, reply.Result, found.Reply.Result)
		}
		_, byMessage := q.asked(found.Reply)
		q.forget()
		reply, _ = q.began(def, route.Call{Params: found.Params, Resume: &route.Resume{Run: found.ID, Responses: []byte(answers(byMessage))}})
	}
	found, err := q.composer.FindRun(first)
	if err != nil || found.Runs != 3 || !strings.Contains(string(found.Reply.Result), `[\"NAME\",\"X\",\"DEEP\",\"A+B\"]`) {
		t.Errorf("%v %+v %s", err, found, found.Reply.Result)
	}
}

// sorted returns the result with the members in order: the order of concurrent questions is not the
// same each time.
func sorted(r wire.Reply) string { return string(canonicalJSON(r.Result)) }

// TestAbandonRun checks that the journal has the end of an asking run without continuation.
func TestAbandonRun(t *testing.T) {
	for _, restart := range []bool{false, true} {
		q := recordedInquiry(t, nil)
		_, run := q.began(saved("return s.ask(q='name')"), route.Call{})
		if restart {
			q.forget()
		}
		if err := q.composer.AbandonRun(run); err != nil {
			t.Fatal(err)
		}
		found, err := q.composer.FindRun(run)
		if err != nil || found.Status != protocol.TaskCancelled || !strings.Contains(string(found.Reply.Result), "cancelled by the client before it answered") {
			t.Errorf("%v %+v %s", err, found, found.Reply.Result)
		}
		if err := q.composer.AbandonRun(run); !errors.Is(err, journal.ErrClaimed) {
			t.Error(err)
		}
		if err := q.composer.AbandonRun("none"); err == nil {
			t.Error("a run that is not there was abandoned")
		}
	}
}

// TestFindMaskedRun checks that the result names masked secrets, and that a run with masked secrets
// does not go on.
func TestFindMaskedRun(t *testing.T) {
	masker := (&config.Config{Secrets: []string{"the-secret"}}).NewMasker()
	q := recordedInquiry(t, config.NewRedactor(masker, nil))
	_, run := q.began(saved("return 'it is ' + 'the-secret'"), route.Call{})
	found, err := q.composer.FindRun(run)
	if err != nil || !strings.Contains(string(found.Reply.Result), "it is ****") || !strings.Contains(found.Note, "secrets are masked") {
		t.Errorf("%v %q %s", err, found.Note, found.Reply.Result)
	}
	def := saved("s.other(x='the-secret')\nreturn s.ask(q='name')")
	_, run = q.began(def, route.Call{})
	q.forget()
	if found, err = q.composer.FindRun(run); err != nil || found.Status != protocol.TaskInputRequired {
		t.Errorf("%v %+v", err, found)
	}
	reply, _ := q.began(def, route.Call{Resume: &route.Resume{Run: found.ID}})
	if !strings.Contains(string(reply.Result), "secrets are masked") || get(t, reply, "isError") != "true" {
		t.Errorf("%s", reply.Result)
	}
}

// TestFindRunWithoutEnd checks runs without an end, or without a record.
func TestFindRunWithoutEnd(t *testing.T) {
	q := recordedInquiry(t, nil)
	run, err := q.composer.cfg.Journal(journal.Begin{Definition: saved("x"), Saved: true, Limits: journal.Limits{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := q.composer.FindRun(run.ID())
	if err != nil || found.Status != protocol.TaskFailed || !strings.Contains(string(found.Reply.Error), "the process that ran it has ended") {
		t.Errorf("%v %+v %s", err, found, found.Reply.Error)
	}
	child, err := q.composer.cfg.Journal(journal.Begin{Definition: saved("x"), Parent: &journal.Parent{Run: run.ID(), Call: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{child.ID(), "none", run.ID()[:8]} {
		if _, err := q.composer.FindRun(id); !errors.Is(err, route.ErrNoRun) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := newInquiry(t).composer.FindRun(run.ID()); !errors.Is(err, route.ErrNoRun) {
		t.Error(err)
	}
}
