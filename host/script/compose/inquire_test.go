package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

const stateless = "2026-07-28"

// askingUpstreams are upstreams with a tool "ask" that asks the client for a name each time, and
// returns the name; "twice" asks two questions at once. All other tools are the tools of upstreams.
type askingUpstreams struct{ upstreams }

func (u *askingUpstreams) CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply {
	server, tool, params := call.Server, call.Tool, call.Params
	arguments, _ := wire.Get(params, "arguments")
	if tool != "ask" && tool != "twice" {
		return u.upstreams.CallUpstream(ctx, origin, call)
	}
	u.mu.Lock()
	u.seen = append(u.seen, server+" "+string(params))
	u.mu.Unlock()
	questions := []string{string(arguments)}
	if tool == "twice" {
		questions = []string{`{"q":"a"}`, `{"q":"b"}`}
	}
	answers := make([]string, len(questions))
	contexts := together(ctx, origin, len(questions))
	var failed error
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() {
			defer contexts[i].asked() // if the client has answered before
			reply, err := origin.Ask(contexts[i], wire.Call{Method: "elicitation/create", Params: []byte(`{"message":` + q + `,"elicitationId":"` + fmt.Sprint(i, time.Now().UnixNano()) + `"}`)})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			answers[i], _ = wire.GetString(reply.Result, "content")
		})
	}
	all.Wait()
	if failed != nil {
		return wire.Reply{Result: route.ErrorResult(failed.Error())}
	}
	return wire.Reply{Result: []byte(`{"content":[{"type":"text","text":"` + strings.Join(answers, "+") + `"}]}`)}
}

// askContext is the context of a question. Done is called once the question is asked.
type askContext struct {
	context.Context
	asked func()
}

// Done implements context.Context.
func (c askContext) Done() <-chan struct{} {
	c.asked()
	return c.Context.Done()
}

// together returns the contexts of n questions of a call. The run does not end to ask a question
// before all of them are asked.
func together(ctx context.Context, origin route.Origin, n int) []askContext {
	all := make([]askContext, n)
	for i := range all {
		all[i] = askContext{ctx, func() {}}
		if of, ok := origin.(*inquirer); ok {
			of.run.tree.questions.work(1)
			all[i].asked = sync.OnceFunc(func() { of.run.tree.questions.work(-1) })
		}
	}
	return all
}

// asker is a client of the stateless era.
func asker() *listener { return &listener{revision: stateless} }

// atOnce is a client with an immediate answer to each question.
type atOnce struct {
	*listener
	answer func(params []byte) string
}

func (c atOnce) Session() route.Session { return c }

func (c atOnce) Ask(_ context.Context, call wire.Call) (wire.Reply, error) {
	return wire.Reply{Result: []byte(`{"action":"accept","content":"` + c.answer(call.Params) + `"}`)}, nil
}

// inquiry is a rig for asking runs.
type inquiry struct {
	t        *testing.T
	up       *askingUpstreams
	saved    savedTools
	mu       sync.Mutex // guards open
	open     []*journal.Run
	composer *Composer
}

func newInquiry(t *testing.T, change ...func(*Options)) *inquiry {
	q := &inquiry{t: t, up: &askingUpstreams{}, saved: savedTools{}}
	q.up.result("s.ask", "{}")
	q.up.result("s.twice", "{}")
	q.up.result("s.other", `{"content":[{"type":"text","text":"o"}]}`)
	q.up.result("s.remove", `{"content":[]}`)
	q.restart(change...)
	return q
}

// restart makes a new Composer, with no memory of earlier runs.
func (q *inquiry) restart(change ...func(*Options)) {
	cfg := func(o *Options) {
		o.Upstreams, o.Saved = q.up, q.saved
		o.Journal = func(b journal.Begin) (*journal.Run, error) {
			r := journal.Open(b)
			if b.Parent == nil {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.open = append(q.open, r)
			}
			return r, nil
		}
		o.Recorded = func(id string) (journal.Record, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			for _, r := range q.open {
				if r.ID() == id { // as from disk
					var file bytes.Buffer
					if err := journal.Encode(&file, r.Record()); err != nil {
						return journal.Record{}, err
					}
					return journal.Decode(&file)
				}
			}
			return journal.Record{}, journal.ErrNotFound
		}
	}
	q.composer = composer(sandboxtest.Guest(q.t), &q.up.upstreams, append([]func(*Options){cfg}, change...)...)
}

// round makes a call and returns the reply. state is the state of the round before, answers are the
// client's answers by message.
func (q *inquiry) round(client route.Origin, def tools.Definition, state, responses string) wire.Reply {
	q.t.Helper()
	call := route.Call{Params: params(`{}`), Origin: client}
	if state != "" {
		call.Resume = &route.Resume{Run: state, Responses: []byte(responses)}
	}
	return q.composer.CallSaved(q.t.Context(), def, call)
}

// asked returns the state and the questions of a reply: their names by their messages.
func (q *inquiry) asked(r wire.Reply) (state string, byMessage map[string]string) {
	q.t.Helper()
	if get(q.t, r, "resultType") != `"input_required"` || !r.Stateless {
		q.t.Fatalf("the run did not ask: %s", r.Result)
	}
	state, _ = wire.GetString(r.Result, "requestState")
	raw, _ := wire.Get(r.Result, "inputRequests")
	all, _ := wire.Members(raw)
	byMessage = map[string]string{}
	for _, m := range all {
		message, _ := wire.GetString(m.Value, "params", "message", "q")
		if _, ok := wire.Get(m.Value, "params", "elicitationId"); ok {
			q.t.Errorf("the question has an elicitationId: %s", m.Value)
		}
		byMessage[message] = m.Name
	}
	return state, byMessage
}

// answers returns the responses for questions: the answer to each question is the message in
// capitals.
func answers(byMessage map[string]string) string {
	var all wire.Object
	for message, name := range byMessage {
		all.Raw(name, []byte(`{"action":"accept","content":"`+strings.ToUpper(message)+`"}`))
	}
	return string(all.Bytes())
}

// finish answers all questions, round after round, until the run ends.
func (q *inquiry) finish(client route.Origin, def tools.Definition, between func(round int)) (last wire.Reply, rounds int) {
	q.t.Helper()
	reply := q.round(client, def, "", "")
	for rounds = 1; rounds < 20; rounds++ {
		if kind, _ := wire.GetString(reply.Result, "resultType"); kind == "" {
			return reply, rounds
		}
		state, byMessage := q.asked(reply)
		if between != nil {
			between(rounds)
		}
		reply = q.round(client, def, state, answers(byMessage))
	}
	q.t.Fatal("the run asks without end")
	return reply, rounds
}

// TestAskTwice checks that a run with two questions goes on twice, with the same value and the same
// fuel as if the client had answered at once, and makes each other call once.
func TestAskTwice(t *testing.T) {
	def := saved("print('begin')\na = s.other(n=1)\nx = s.ask(q='name')\nprint(x)\nb = s.other(n=2)\ny = s.ask(q='age')\nreturn [a, x, b, y, s.other(n=3)]")
	const want = `["o","NAME","o","AGE","o"]`
	for _, restart := range []bool{false, true} {
		q := newInquiry(t)
		client := asker()
		client.least = "info"
		last, rounds := q.finish(client, def, func(int) {
			if restart {
				q.restart(func(o *Options) { o.Listeners = client })
			}
		})
		if text := get(t, last, "content"); rounds != 3 || !strings.Contains(text, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("restart %t: %d rounds, %s", restart, rounds, last.Result)
		}
		made := slices.DeleteFunc(q.up.calls(), func(c string) bool { return !strings.Contains(c, `"other"`) })
		if len(made) != 3 {
			t.Errorf("restart %t: made %q", restart, made)
		}
		rec := q.open[2].Record()
		if rec.Continues != q.open[1].ID() || q.open[1].Record().Continues != q.open[0].ID() || len(rec.Inputs) != 2 || string(rec.Inputs[1].Answer) == "" {
			t.Errorf("restart %t: record %+v", restart, rec.Inputs)
		}
		if first := q.open[0].Record(); first.Outcome.Error != "cancelled" || first.OutcomeName() != journal.Asks || len(first.Open()) != 1 || len(first.Inputs) != 1 || first.Inputs[0].Answer != nil {
			t.Errorf("restart %t: first record %+v", restart, first)
		}
		legacy := newInquiry(t)
		reply := legacy.round(atOnce{asker0("2025-11-25"), func(params []byte) string {
			message, _ := wire.GetString(params, "message", "q")
			return strings.ToUpper(message)
		}}, def, "", "")
		if get(t, reply, "content") != get(t, last, "content") {
			t.Errorf("at once: %s", reply.Result)
		}
		direct := legacy.open[0].Record()
		// The time and the seed of the runs differ, but not in length.
		if rec.Outcome.Fuel != direct.Outcome.Fuel || len(rec.Logs) != len(direct.Logs) || len(rec.Calls) != len(direct.Calls) {
			t.Errorf("restart %t: fuel %d, %d log entries, %d calls; at once %d, %d, %d", restart, rec.Outcome.Fuel, len(rec.Logs), len(rec.Calls),
				direct.Outcome.Fuel, len(direct.Logs), len(direct.Calls))
		}
		if restart {
			told := strings.Join(client.told, "\n")
			if strings.Count(told, "begin") > 1 || strings.Count(told, `"NAME"`) != 1 {
				t.Errorf("the client was told %s", told)
			}
		}
	}
}

func asker0(revision string) *listener { return &listener{revision: revision} }

// TestAskInParallel checks that questions of concurrent calls come in one round, and that answered
// calls of the same batch are not made again.
func TestAskInParallel(t *testing.T) {
	q := newInquiry(t)
	def := saved("return parallel([lambda: s.ask(q='x'), lambda: s.other(n=1), lambda: s.ask(q='y'), s.twice, lambda: s.other(n=2)])")
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	if len(byMessage) != 4 {
		t.Fatalf("asked %v", byMessage)
	}
	before := len(q.up.calls())
	reply := q.round(asker(), def, state, answers(byMessage))
	if text := get(t, reply, "content"); !strings.Contains(text, `[\"X\",\"o\",\"Y\",\"A+B\",\"o\"]`) {
		t.Errorf("%s", reply.Result)
	}
	if again := q.up.calls()[before:]; len(again) != 3 {
		t.Errorf("made again: %q", again)
	}
}

// TestAskBelow checks questions in saved tools of scripts.
func TestAskBelow(t *testing.T) {
	q := newInquiry(t)
	q.saved["inner"] = tools.Definition{Name: "inner", InputSchema: []byte(`{"type":"object"}`), Code: "s.other(n=params.n)\nx = s.ask(q='q' + str(params.n))\nundo(s.remove, n=params.n)\nreturn x + s.other(n=0)"}
	def := saved("return [tools.inner(n=1), tools.inner(n=2)]")
	for _, restart := range []bool{false, true} {
		before := len(q.up.calls())
		last, rounds := q.finish(asker(), def, func(int) {
			if restart {
				q.restart()
			}
		})
		if text := get(t, last, "content"); rounds != 3 || !strings.Contains(text, `[\"Q1o\",\"Q2o\"]`) {
			t.Errorf("restart %t: %d rounds, %s", restart, rounds, last.Result)
		}
		made := slices.DeleteFunc(slices.Clone(q.up.calls()[before:]), func(c string) bool { return strings.Contains(c, `"ask"`) })
		if len(made) != 4 {
			t.Errorf("restart %t: made %q", restart, made)
		}
	}
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	inner := q.saved["inner"]
	inner.Code += "\n# changed"
	q.saved["inner"] = inner
	if reply := q.round(asker(), def, state, answers(byMessage)); !strings.Contains(string(reply.Result), "was changed since the client was asked") {
		t.Errorf("a changed tool below: %s", reply.Result)
	}
}

// TestUndoAfterQuestions checks that a run that ends to ask undoes nothing, and that the continuing
// run undoes the calls of both.
func TestUndoAfterQuestions(t *testing.T) {
	q := newInquiry(t)
	def := saved("s.other(n=1)\nundo(s.remove, n=1)\nx = s.ask(q='go on')\ns.other(n=2)\nundo(s.remove, n=2)\nfail('no: ' + x)")
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	removed := func() (n int) {
		for _, c := range q.up.calls() {
			if strings.Contains(c, `"remove"`) {
				n++
			}
		}
		return n
	}
	if n := removed(); n != 0 {
		t.Errorf("%d calls were undone by the run that asks", n)
	}
	reply := q.round(asker(), def, state, answers(byMessage))
	if !strings.Contains(string(reply.Result), "no: GO ON") || removed() != 2 {
		t.Errorf("%d undone, %s", removed(), reply.Result)
	}
}

// TestAskAgain checks repeated questions: questions left out by the client, and questions asked
// twice by a server.
func TestAskAgain(t *testing.T) {
	q := newInquiry(t)
	def := saved("return [s.twice(), s.ask(q='z')]")
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	delete(byMessage, "b")
	state, byMessage = q.asked(q.round(asker(), def, state, answers(byMessage)))
	if len(byMessage) != 1 || byMessage["b"] == "" {
		t.Errorf("asked %v", byMessage)
	}
	state, byMessage = q.asked(q.round(asker(), def, state, answers(byMessage)))
	if len(byMessage) != 1 || byMessage["z"] == "" {
		t.Errorf("asked %v", byMessage)
	}
	again, byMessage := q.asked(q.round(asker(), def, state, `{"unknown":{}}`))
	if again == state {
		t.Error("the round without answers has the state of the one before")
	}
	if reply := q.round(asker(), def, again, answers(byMessage)); !strings.Contains(string(reply.Result), `[\"A+B\",\"Z\"]`) {
		t.Errorf("%s", reply.Result)
	}
}

// TestResumeRefused checks which runs cannot be continued.
func TestResumeRefused(t *testing.T) {
	def := saved("return s.ask(q='x')")
	for name, test := range map[string]struct {
		change func(q *inquiry, def *tools.Definition, state *string)
		answer string
		says   string
	}{
		"changed code":   {func(_ *inquiry, d *tools.Definition, _ *string) { d.Code += "\n" }, "", "it was changed since it asked"},
		"changed schema": {func(_ *inquiry, d *tools.Definition, _ *string) { d.InputSchema = []byte(`{}`) }, "", "it was changed since it asked"},
		"changed limits": {func(q *inquiry, _ *tools.Definition, _ *string) { q.restart(func(o *Options) { o.Limits.Calls = 7 }) }, "", "the limits were changed"},
		"unknown run":    {func(_ *inquiry, _ *tools.Definition, s *string) { *s = "none" }, "", "is not known any more"},
		"no journal":     {func(q *inquiry, _ *tools.Definition, _ *string) { q.restart(func(o *Options) { o.Recorded = nil }) }, "", "is not known any more"},
		"masked secrets": {masked, "", "where secrets are masked"},
		"another guest":  {func(q *inquiry, _ *tools.Definition, _ *string) { q.fake(func(r *journal.Record) { r.Guest = "00" }) }, "", "the program was updated"},
		"unfinished":     {func(q *inquiry, _ *tools.Definition, _ *string) { q.fake(func(r *journal.Record) { r.Done = false }) }, "", "is not complete"},
		"malformed":      {nil, `{"question1":"yes"}`, `the answer "question1" is not an object`},
		"too long before": {func(q *inquiry, _ *tools.Definition, _ *string) {
			q.fake(func(r *journal.Record) { r.Elapsed = time.Hour })
		}, "", "longer than"},
		"another call": {func(q *inquiry, _ *tools.Definition, _ *string) {
			q.fake(func(r *journal.Record) { r.Calls[0].Request.Arguments = []byte(`{"q":"w"}`) })
		}, "", "call 1 is another one than before the client was asked"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newInquiry(t)
			changed := def
			state, byMessage := q.asked(q.round(asker(), def, "", ""))
			if test.change != nil {
				test.change(q, &changed, &state)
			}
			answer := test.answer
			if answer == "" {
				answer = answers(byMessage)
			}
			reply := q.round(asker(), changed, state, answer)
			if !strings.Contains(strings.ReplaceAll(string(reply.Result), `\"`, `"`), test.says) || get(t, reply, "isError") != "true" {
				t.Errorf("%s", reply.Result)
			}
		})
	}
}

func masked(q *inquiry, _ *tools.Definition, _ *string) {
	q.fake(func(r *journal.Record) { r.Redacted = true })
}

// fake makes a new Composer with changed records.
func (q *inquiry) fake(change func(*journal.Record)) {
	q.restart(func(o *Options) {
		find := o.Recorded
		o.Recorded = func(id string) (journal.Record, error) {
			r, err := find(id)
			change(&r)
			return r, err
		}
	})
}

// TestCancelledWhileAsking checks that a request that ends while servers ask does not ask.
func TestCancelledWhileAsking(t *testing.T) {
	q := newInquiry(t)
	called := q.up.block("s.wait")
	q.restart()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-called
		cancel(errors.New("gone"))
	}()
	reply := q.composer.CallSaved(ctx, saved("parallel([s.wait, lambda: s.ask(q='x')])"), route.Call{Params: params(`{}`), Origin: asker()})
	if get(t, reply, "isError") != "true" || !strings.Contains(string(reply.Result), "cancelled") {
		t.Errorf("%s", reply.Result)
	}
}

// TestAsked checks the bounds of the records in memory.
func TestAsked(t *testing.T) {
	var a Asked
	for i := range maxAsked + 10 {
		a.keep(journal.Record{ID: fmt.Sprint(i), Begin: journal.Begin{Params: []byte("{}")}})
	}
	if _, err := a.find("9"); !errors.Is(err, errForgotten) {
		t.Errorf("the oldest: %v", err)
	}
	if r, err := a.find("10"); err != nil || r.ID != "10" {
		t.Errorf("%v, %v", r.ID, err)
	}
	a.keep(journal.Record{ID: "large", Inputs: []journal.InputRecord{{Answer: make([]byte, maxAskedBytes)}}})
	if _, err := a.find("large"); err != nil || len(a.runs) != 1 {
		t.Errorf("%v, %d runs", err, len(a.runs))
	}
	a.keep(journal.Record{ID: "larger", Inputs: []journal.InputRecord{{Answer: make([]byte, maxAskedBytes+1)}}})
	if len(a.runs) != 0 || a.bytes != 0 {
		t.Errorf("%d runs, %d bytes", len(a.runs), a.bytes)
	}
}
