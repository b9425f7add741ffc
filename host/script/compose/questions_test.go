package compose

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// crossing are upstreams with questions to the newest call in flight, as on a server with a single
// pipe: the asking call is unknown. Calls of "guess" ask their message when all of a round are in
// flight; "nonce" asks a different question each time.
type crossing struct {
	askingUpstreams
	together int

	mu      sync.Mutex
	arrived int
	round   *crossingRound
	nonce   int
}

type crossingRound struct {
	all    chan struct{} // closed when all calls have arrived
	newest route.Origin
}

func (u *crossing) CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply {
	tool, params := call.Tool, call.Params
	message, _ := wire.GetString(params, "arguments", "q")
	u.mu.Lock()
	if tool == "nonce" {
		u.nonce++
		message = fmt.Sprint("nonce ", u.nonce)
		u.mu.Unlock()
		return u.asked(ctx, origin, message, false)
	}
	if tool != "guess" {
		u.mu.Unlock()
		return u.askingUpstreams.CallUpstream(ctx, origin, call)
	}
	u.seen = append(u.seen, tool+" "+message)
	if u.arrived++; u.arrived%u.together == 1 {
		u.round = &crossingRound{all: make(chan struct{})}
	}
	round := u.round
	if u.arrived%u.together == 0 {
		round.newest = origin
		close(round.all)
	}
	u.mu.Unlock()
	<-round.all
	return u.asked(ctx, round.newest, message, true)
}

func (u *crossing) asked(ctx context.Context, of route.Origin, message string, unsure bool) wire.Reply {
	reply, err := of.Ask(ctx, wire.Call{Method: protocol.MethodElicit, Params: []byte(`{"message":{"q":"` + message + `"}}`), Unsure: unsure})
	if err != nil {
		return wire.Reply{Result: route.ErrorResult(err.Error())}
	}
	answer, _ := wire.GetString(reply.Result, "content")
	return wire.Reply{Result: []byte(`{"content":[{"type":"text","text":"` + answer + `"}]}`)}
}

func newCrossing(t *testing.T, together int) (*inquiry, *crossing) {
	u := &crossing{together: together}
	q := newInquiry(t)
	for _, tool := range []string{"s.guess", "s.nonce"} {
		q.up.result(tool, "{}")
	}
	u.tools = q.up.tools
	q.up = &u.askingUpstreams
	q.restart(func(o *Options) { o.Upstreams = u })
	return q, u
}

// TestGuessedQuestions checks that questions assigned to a wrong call are all asked at once, and
// that each call gets its own answer.
func TestGuessedQuestions(t *testing.T) {
	q, u := newCrossing(t, 3)
	last, rounds := q.finish(asker(), saved("return parallel([lambda: s.guess(q='x'), lambda: s.guess(q='y'), lambda: s.guess(q='z')])"), nil)
	if text := get(t, last, "content"); rounds != 2 || !strings.Contains(text, `[\"X\",\"Y\",\"Z\"]`) {
		t.Errorf("%d rounds, %s", rounds, last.Result)
	}
	if len(u.seen) != 6 {
		t.Errorf("calls %q", u.seen)
	}
	if in := q.open[0].Record().Inputs; len(in) != 3 || !in[0].Unsure {
		t.Errorf("record %+v", in)
	}
}

// TestGuessedWrongly checks the answer to a question wrongly assigned to a call, after the end of
// the call without a question. The answer is used once.
func TestGuessedWrongly(t *testing.T) {
	q := newInquiry(t)
	def := saved("a = s.other(n=1)\nreturn [a, s.ask(q='x'), s.ask(q='x')]")
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	q.fake(func(r *journal.Record) {
		r.Inputs = slices.Clone(r.Inputs)
		r.Inputs[0].Call, r.Inputs[0].Unsure = 1, true
	})
	state, byMessage = q.asked(q.round(asker(), def, state, answers(byMessage)))
	if in := q.open[1].Record().Inputs; len(in) != 2 || in[0].Call != 2 || in[0].Answer == nil || in[1].Call != 3 || in[1].Answer != nil {
		t.Errorf("record %+v", in)
	}
	q.restart()
	if reply := q.round(asker(), def, state, answers(byMessage)); !strings.Contains(string(reply.Result), `[\"o\",\"X\",\"X\"]`) {
		t.Errorf("%s", reply.Result)
	}
}

// TestAsksOtherwise checks that a run fails, and is undone, if a server never asks the same again.
func TestAsksOtherwise(t *testing.T) {
	q, _ := newCrossing(t, 1)
	last, rounds := q.finish(asker(), saved("undo(s.remove, n=1)\nreturn s.nonce()"), nil)
	if rounds != 2 || !strings.Contains(string(last.Result), "asked something else when its tool was called again") || get(t, last, "isError") != "true" {
		t.Errorf("%d rounds, %s", rounds, last.Result)
	}
	if all := strings.Join(q.up.calls(), "\n"); strings.Count(all, `"remove"`) != 1 {
		t.Errorf("calls %s", all)
	}
}

// TestContinueOnce sends the same answers several times, to two processes that share the journal.
// Only the first claim goes on, so that no call is made twice.
func TestContinueOnce(t *testing.T) {
	for _, shared := range []bool{true, false} {
		q := newInquiry(t)
		def := saved("x = s.ask(q='x')\nreturn [x, s.other(n=2)]")
		state, byMessage := q.asked(q.round(asker(), def, "", ""))
		dir := filepath.Join(t.TempDir(), "journal")
		composers := []*Composer{q.composer, q.composer}
		if shared {
			for i := range composers {
				log := journal.OpenLog(dir, journal.LogOptions{})
				defer log.Close()
				q.restart(func(o *Options) { o.Claims = log })
				composers[i] = q.composer
			}
		}
		replies := make([]wire.Reply, 6)
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() {
				resume := &route.Resume{Run: state, Responses: []byte(answers(byMessage))}
				replies[i] = composers[i%2].CallSaved(t.Context(), def, route.Call{Params: params(`{}`), Origin: asker(), Resume: resume})
			})
		}
		all.Wait()
		went := 0
		for _, r := range replies {
			switch text := string(r.Result); {
			case strings.Contains(text, `[\"X\",\"o\"]`):
				went++
			case !strings.Contains(text, "was continued already, and answers are used once"):
				t.Errorf("shared %t: %s", shared, text)
			}
		}
		if all := strings.Join(q.up.calls(), "\n"); went != 1 || strings.Count(all, `"other"`) != 1 {
			t.Errorf("shared %t: %d went on, calls %s", shared, went, all)
		}
	}
}

// TestClaimGivenBack checks that a client can answer again if the run failed before the first call.
func TestClaimGivenBack(t *testing.T) {
	q := newInquiry(t)
	def := saved("return s.ask(q='x')")
	state, byMessage := q.asked(q.round(asker(), def, "", ""))
	broken := errors.New("no room")
	open := q.composer.cfg.Journal
	q.composer.cfg.Journal = func(journal.Begin) (*journal.Run, error) { return nil, broken }
	if reply := q.round(asker(), def, state, answers(byMessage)); !strings.Contains(string(reply.Result), "no room") {
		t.Errorf("%s", reply.Result)
	}
	q.composer.cfg.Journal = open
	ctx, cancel := context.WithCancel(t.Context())
	q.composer.cfg.Journal = func(b journal.Begin) (*journal.Run, error) {
		cancel() // the client goes away
		return open(b)
	}
	gone := q.composer.CallSaved(ctx, def, route.Call{Params: params(`{}`), Origin: asker(), Resume: &route.Resume{Run: state, Responses: []byte(answers(byMessage))}})
	if !strings.Contains(string(gone.Result), "cancelled") {
		t.Errorf("%s", gone.Result)
	}
	q.composer.cfg.Journal = open
	if reply := q.round(asker(), def, state, answers(byMessage)); !strings.Contains(string(reply.Result), `"X"`) {
		t.Errorf("%s", reply.Result)
	}
	if reply := q.round(asker(), def, state, answers(byMessage)); !strings.Contains(string(reply.Result), "continued already") {
		t.Errorf("%s", reply.Result)
	}
}

// TestTookAnotherWay checks that a run with other calls than the run before is refused, that the
// script cannot catch the refusal, and that no call is made.
func TestTookAnotherWay(t *testing.T) {
	inner := tools.Definition{Name: "inner", InputSchema: []byte(`{"type":"object"}`), Code: "return s.other(n=1)"}
	for name, test := range map[string]struct {
		code   string
		change func(q *inquiry, r *journal.Record)
		says   string
	}{
		"one of a batch": {"return parallel([lambda: s.other(n=1), lambda: s.ask(q='x')])", func(_ *inquiry, r *journal.Record) {
			r.Calls[0].Request.Arguments = []byte(`{"n":7}`)
		}, "call 1 is another one"},
		"fewer calls": {"try:\n    undo(s.remove, n=1)\nexcept ToolError as e:\n    return e.message\nreturn s.ask(q='x')", func(_ *inquiry, r *journal.Record) {
			r.Undos[0].Err = &abi.CallError{Type: abi.ErrTool, Message: "as recorded"}
		}, "made 1 calls less than before"},
		"removed below": {"try:\n    tools.inner()\nexcept Error:\n    pass\nreturn s.ask(q='x')", func(q *inquiry, _ *journal.Record) {
			delete(q.saved, "inner")
		}, `saved tool \"inner\" was removed`},
		"time below": {"return tools.asks()", func(_ *inquiry, r *journal.Record) {
			r.Calls[0].Answer.Run.Elapsed = time.Hour
		}, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newInquiry(t)
			q.saved["inner"] = inner
			q.saved["asks"] = tools.Definition{Name: "asks", InputSchema: inner.InputSchema, Code: "return s.ask(q='x')"}
			def := saved(test.code)
			state, byMessage := q.asked(q.round(asker(), def, "", ""))
			before := len(q.up.calls())
			q.fake(func(r *journal.Record) { test.change(q, r) })
			reply := q.round(asker(), def, state, answers(byMessage))
			if text := strings.ReplaceAll(string(reply.Result), `\\"`, `\"`); !strings.Contains(text, test.says) || get(t, reply, "isError") != "true" {
				t.Errorf("%s", reply.Result)
			}
			made := slices.DeleteFunc(slices.Clone(q.up.calls()[before:]), func(c string) bool { return strings.Contains(c, `"remove"`) })
			if len(made) != 0 {
				t.Errorf("made %q", made)
			}
		})
	}
}

// TestNoCallAfterTheEnd checks that no call begins once the run ends to ask, that questions end
// with their calls, and that the journal has no late question.
func TestNoCallAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		q := &questions{ctx: t.Context(), stop: func(err error) { stopped <- err }, busy: 2, calls: map[*inquirer]int{}}
		a, b, late := &inquirer{server: "s"}, &inquirer{server: "t"}, &inquirer{server: "s"}
		var saved []string
		save := func(name string) { saved = append(saved, name) }
		q.begin(a)
		q.begin(b)
		if err := q.ask(&question{by: a}, save); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		q.end(a) // without an answer: the call's own timeout was over
		q.work(-1)
		if err := q.ask(&question{by: a}, save); !errors.Is(err, wire.ErrClosed) {
			t.Errorf("a question of a call that has ended: %v", err)
		}
		if err := q.ask(&question{by: b}, save); err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; !errors.Is(err, errAsks) {
			t.Error(err)
		}
		if q.begin(late) {
			t.Error("a call begins after the end")
		}
		if err := q.ask(&question{by: b}, save); !errors.Is(err, errAsks) {
			t.Errorf("a question after the end: %v", err)
		}
		if open := q.close(); len(open) != 1 || open[0].name != "question2" {
			t.Errorf("asked %+v", open)
		}
		if !slices.Equal(saved, []string{"question1", "question2"}) {
			t.Errorf("saved %q", saved)
		}
	})
}

// TestQuestionsAreBounded checks how many questions of a run can be open.
func TestQuestionsAreBounded(t *testing.T) {
	q := &questions{ctx: t.Context(), stop: func(error) {}, busy: 2, calls: map[*inquirer]int{}}
	i, saved := &inquirer{server: "s"}, 0
	save := func(string) { saved++ }
	q.begin(i)
	for range maxQuestions {
		if err := q.ask(&question{by: i}, save); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.ask(&question{by: i}, save); err == nil || !strings.Contains(err.Error(), "more than 64 questions open") {
		t.Errorf("%v", err)
	}
	if saved != maxQuestions {
		t.Errorf("saved %d", saved)
	}
	if q.timer != nil {
		t.Error("the run would end although its script computes")
	}
}

// TestCallClock checks that the timeout of a call does not count the time of questions.
func TestCallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := &stack.Request{ToolCall: abi.ToolCall{Timeout: 2}}
		ctx, c, stop := startClock(t.Context(), call.Limit())
		defer stop()
		time.Sleep(time.Second)
		c.pause()
		c.pause()
		time.Sleep(time.Hour)
		c.goOn()
		time.Sleep(time.Hour)
		c.goOn()
		time.Sleep(time.Second - time.Millisecond)
		if ctx.Err() != nil {
			t.Error("too early")
		}
		time.Sleep(2 * time.Millisecond)
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("%v", context.Cause(ctx))
		}
	})
}
