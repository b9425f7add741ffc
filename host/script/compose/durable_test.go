package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// cutStore is a Store without further appends after some events, as if the process had died there.
// The next process has another cutStore.
type cutStore struct {
	durable.Store
	left atomic.Int64
	cut  atomic.Bool
}

func (s *cutStore) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	if s.left.Add(-1) < 0 {
		s.cut.Store(true)
		return store.Position{}, errors.New("the process is dead")
	}
	return s.Store.Append(ctx, log, e)
}

// sendingUpstreams calls the functions called by the router before sending a call.
type sendingUpstreams struct{ *askingUpstreams }

func (u sendingUpstreams) CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply {
	if call.Before != nil {
		if err := errors.Join(call.Before(ctx), call.Permit()); err != nil {
			return wire.Reply{Result: route.ErrorResult(err.Error())}
		}
	}
	return u.askingUpstreams.CallUpstream(ctx, origin, call)
}

// durableRig makes processes with the same logs and servers.
type durableRig struct {
	*inquiry
	folder     *durable.Folder
	idempotent bool
	owners     int
	link       *memorytest.Link // to the store of a fleet, in place of folder; nil for none
	change     func(*Options)   // of each process; nil: nothing
	state      *durable.State   // with which the last process went on
}

func newDurableRig(t *testing.T, idempotent bool) *durableRig {
	r := &durableRig{inquiry: newInquiry(t), folder: durable.NewFolder(t.TempDir()), idempotent: idempotent}
	r.up.block("s.block")
	r.saved.add("inner", "a = s.other(n=10)\nundo(s.remove, {\"n\": 11})\nreturn a + s.other(n=params.n)")
	r.saved.add("slow", "undo(s.remove, {\"n\": 21})\ns.block(n=20)")
	r.saved.add("begun", "undo(s.remove, {\"n\": 31})\ns.other(n=30)\ns.block(n=32)")
	return r
}

// process makes another process, which can append the given number of events.
func (r *durableRig) process(events int64) (*durable.Runs, *cutStore) {
	r.t.Helper()
	aead, err := durable.NewAEAD(make([]byte, 32))
	if err != nil {
		r.t.Fatal(err)
	}
	kept := &cutStore{Store: r.folder}
	if r.link != nil {
		kept.Store, aead = durable.Shared(r.link.MustOpen(r.t)), nil
	}
	kept.left.Store(events)
	r.owners++
	owner := fmt.Sprint("process", r.owners)
	runs := durable.New(durable.Options{
		Store: kept, AEAD: aead, Owner: func() (string, error) { return owner, nil }, Log: quiet(),
		Alive: func(o string) bool { return o == owner },
	})
	r.t.Cleanup(func() {
		if err := runs.Close(context.Background()); err != nil {
			r.t.Error(err)
		}
	})
	r.restart(func(o *Options) {
		o.Upstreams, o.Durable = sendingUpstreams{r.up}, runs
		o.Idempotent = func(string, string) bool { return r.idempotent }
		if r.change != nil {
			r.change(o)
		}
	})
	return runs, kept
}

// goOn makes another process, which continues the only open run, and returns the result.
func (r *durableRig) goOn() wire.Reply {
	r.t.Helper()
	return r.goOnAfter(0)
}

// goOnAfter is goOn for a run with some more time used.
func (r *durableRig) goOnAfter(used time.Duration) wire.Reply {
	r.t.Helper()
	runs, _ := r.process(1 << 30)
	for id, err := range runs.Free(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		log, state, err := runs.Take(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		state.Used += used
		done := make(chan wire.Reply, 1)
		r.state = state
		runs.Go(r.t.Context(), func(ctx context.Context, cancel context.CancelCauseFunc) {
			done <- r.composer.Continue(ctx, cancel, log, state, asker0("2025-11-25"))
		})
		reply := <-done
		if open, err := runs.List(r.t.Context()); err != nil || len(open) > 0 {
			r.t.Errorf("open runs %+v, error %v", open, err)
		}
		return reply
	}
	r.t.Fatal("there is no open run")
	return wire.Reply{}
}

// counts returns how often the server got each call.
func (r *durableRig) counts() map[string]int {
	counts, keys := map[string]int{}, map[string]string{}
	for _, call := range r.up.calls() {
		_, params, _ := strings.Cut(call, " ")
		name, _ := wire.GetString([]byte(params), "name")
		n, _ := wire.Get([]byte(params), "arguments", "n")
		key, _ := wire.GetString([]byte(params), "_meta", IdempotencyKey)
		call = name + " " + string(n)
		if counts[call]++; key == "" || keys[call] != "" && keys[call] != key {
			r.t.Errorf("%s has the idempotency keys %q and %q", call, keys[call], key)
		}
		keys[call] = key
	}
	return counts
}

// durableScripts make calls in all ways.
var durableScripts = map[string]string{
	"steps":    "a = s.other(n=1)\nundo(s.remove, {\"n\": 2})\nreturn [a, s.other(n=3)]",
	"fails":    "s.other(n=1)\nundo(s.remove, {\"n\": 2})\nundo(s.remove, {\"n\": 3})\ns.other(n=4)\nfail('enough')",
	"nested":   "a = tools.inner(n=1)\ns.other(n=2)\nfail(a)",
	"parallel": "return parallel([lambda n=n: s.other(n=n) for n in [1, 2, 3]])",
	"caught":   "try:\n    tools.slow({}, timeout=0.05)\nexcept Error as e:\n    s.other(n=1)\nreturn s.other(n=2)",
	"caught undo": "try:\n    tools.slow({}, timeout=0.05)\nexcept Error as e:\n    s.other(n=1)\n" +
		"s.other(n=2)\nfail('enough')",
}

func durableTool(code string, doubt tools.InDoubt) tools.Definition {
	def := saved(code)
	def.Durability = tools.Durability{Durable: true, InDoubt: doubt}
	return def
}

// firstText returns the first line of the first text of a result.
func firstText(t *testing.T, r wire.Reply) string {
	content, _ := wire.Elements([]byte(get(t, r, "content")))
	text, _ := wire.GetString(content[0], "text")
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// TestDurableCut ends processes at every event of a log. The next process must come to the same
// end, with each call made once, or once more for an idempotent call in doubt.
func TestDurableCut(t *testing.T) {
	for name, code := range durableScripts {
		for _, idempotent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, idempotent %t", name, idempotent), func(t *testing.T) {
				t.Parallel()
				whole := newDurableRig(t, idempotent)
				whole.process(1 << 30)
				def := durableTool(code, "")
				want := whole.round(asker0("2025-11-25"), def, "", "")
				expected := whole.counts()
				for events := int64(0); ; events++ {
					r := newDurableRig(t, idempotent)
					r.saved["job"] = def
					_, kept := r.process(events)
					reply := r.round(asker0("2025-11-25"), def, "", "")
					if !kept.cut.Load() {
						break
					}
					if events == 0 {
						if text := firstText(t, reply); !strings.Contains(text, "its log cannot be written") || len(r.up.calls()) > 0 {
							t.Fatalf("without a log: %s, calls %q", text, r.up.calls())
						}
						continue
					}
					got := firstText(t, r.goOn())
					if same := got == firstText(t, want); !same && (idempotent || !strings.Contains(got, "it is not known whether")) {
						t.Errorf("after %d events: %s, want %s", events, got, firstText(t, want))
					} else if same {
						r.compare(events, expected)
					}
				}
			})
		}
	}
}

// compare compares how often calls were made with how often they would have been. On a slow
// machine, the tool "slow" may be out of time before the call of the tool.
func (r *durableRig) compare(events int64, expected map[string]int) {
	r.t.Helper()
	counts := r.counts()
	expected = maps.Clone(expected)
	delete(expected, "remove 21")
	if counts["block 20"] > 0 {
		expected["block 20"], expected["remove 21"] = 1, 1
	}
	for call := range expected {
		if counts[call] == 0 && call != "block 20" && (r.idempotent || !strings.HasPrefix(call, "remove")) {
			r.t.Errorf("after %d events: %s was lost", events, call)
		}
	}
	for call, n := range counts {
		if n > 2 || n > 1 && !r.idempotent || expected[call] == 0 && call != "remove 21" {
			r.t.Errorf("after %d events: %s was made %d times", events, call, n)
		}
	}
}

// TestDurableAfterQuestion checks that the log of a run after a question to the client has all
// input of the script.
func TestDurableAfterQuestion(t *testing.T) {
	r := newDurableRig(t, true)
	r.process(1 << 30)
	def := durableTool("a = s.other(n=1)\nb = s.ask(q='name')\nreturn [a, b, s.other(n=2)]", "")
	r.saved["job"] = def
	state, questions := r.asked(r.round(asker(), def, "", ""))
	_, kept := r.process(4) // begin, the answer of other 1, and the asking call
	reply := r.round(asker(), def, state, answers(questions))
	if !kept.cut.Load() {
		t.Fatalf("the run was not cut: %s", reply.Result)
	}
	if text := firstText(t, r.goOn()); text != `["o","NAME","o"]` {
		t.Errorf("ended with %s", text)
	}
	made := slices.DeleteFunc(r.up.calls(), func(c string) bool { return !strings.Contains(c, `"n":1`) })
	if len(made) != 1 {
		t.Errorf("the first call was made again: %q", made)
	}
}

// TestDurableTime checks that the time of the dead process counts, and that compensations are known
// when the time is over.
func TestDurableTime(t *testing.T) {
	r := newDurableRig(t, true)
	_, _ = r.process(5) // begin, and two calls
	def := durableTool("s.other(n=1)\nundo(s.remove, {\"n\": 2})\ns.other(n=3)\ns.block(n=4)\n", "")
	r.saved["job"] = def
	r.round(asker0("2025-11-25"), def, "", "")
	if reply := r.goOnAfter(time.Hour); !strings.Contains(string(reply.Result), `"undone":true`) || !strings.Contains(string(reply.Result), `"type":"timeout"`) {
		t.Errorf("ended with %s", reply.Result)
	}
	if n := r.counts()["remove 2"]; n != 1 {
		t.Errorf("%d compensations", n)
	}
}

// begunEvents end a process with calls of inner and begun: the start, three calls and their
// answers, and the answer of inner.
const begunEvents = 8

// TestDurableTimeBelow is TestDurableTime for compensations of two saved tools, the first of which
// had answered the caller.
func TestDurableTimeBelow(t *testing.T) {
	r := newDurableRig(t, true)
	r.saved["job"] = durableTool("tools.inner(n=1)\ntools.begun()", "")
	_, _ = r.process(begunEvents)
	r.round(asker0("2025-11-25"), r.saved["job"], "", "")
	reply := r.goOnAfter(time.Hour)
	if counts := r.counts(); counts["remove 31"] != 1 || counts["remove 11"] != 1 {
		t.Errorf("calls %v\n%s", counts, reply.Result)
	}
	if !strings.Contains(string(reply.Result), `"params":{"n":31},"undone":true`) { // by the run out of time
		t.Errorf("ended with %s", reply.Result)
	}
}

// TestDurableCancelledEarly checks that a run cancelled before the point of the process's death
// knows all compensations.
func TestDurableCancelledEarly(t *testing.T) {
	r := newDurableRig(t, true)
	r.saved["job"] = durableTool("tools.inner(n=1)\ntools.begun()", "")
	_, _ = r.process(begunEvents)
	r.round(asker0("2025-11-25"), r.saved["job"], "", "")
	runs, _ := r.process(1 << 30)
	for id := range runs.Free(t.Context()) {
		if err := runs.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	reply := r.goOn()
	if counts := r.counts(); counts["remove 31"] != 1 || counts["remove 11"] != 1 || !strings.Contains(string(reply.Result), durable.ErrCancelRequested.Error()) {
		t.Errorf("calls %v\n%s", counts, reply.Result)
	}
}

// lateSandbox begins each script after a time, or when no time is left for the script.
type lateSandbox struct {
	Sandbox
	after time.Duration
}

func (s lateSandbox) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	if r.Request.Op == abi.OpRun {
		select {
		case <-ctx.Done():
		case <-time.After(s.after):
		}
	}
	return s.Sandbox.Run(ctx, r)
}

// TestDurableSlow checks that a process knows all compensations after taking longer than the
// timeout of a call to come to the point where the other process died.
func TestDurableSlow(t *testing.T) {
	timeout := testenv.Quiet(100 * time.Millisecond)
	for ; ; timeout *= 2 { // until the calls below are made in time
		r := newDurableRig(t, true)
		r.saved["job"] = durableTool(fmt.Sprintf("tools.inner({\"n\": 1}, timeout=%g)\ntools.begun({}, timeout=%[1]g)", timeout.Seconds()), "")
		_, _ = r.process(begunEvents)
		r.round(asker0("2025-11-25"), r.saved["job"], "", "")
		if r.counts()["other 30"] == 0 {
			continue
		}
		r.change = func(o *Options) { o.Sandbox = lateSandbox{o.Sandbox, timeout + testenv.Quiet(100*time.Millisecond)} }
		reply := r.goOn()
		if text := firstText(t, reply); !strings.HasPrefix(text, "timeout error: tools.begun: no answer within") {
			t.Errorf("ended with %s", text)
		}
		if counts := r.counts(); counts["remove 31"] != 1 || counts["remove 11"] != 1 {
			t.Errorf("calls %v\n%s", counts, reply.Result)
		}
		return
	}
}

// TestDurableRemoved checks that a run of a deleted tool makes no further call, and undoes its
// calls.
func TestDurableRemoved(t *testing.T) {
	r := newDurableRig(t, true)
	r.saved["job"] = durableTool("s.other(n=1)\nundo(s.remove, {\"n\": 2})\ns.other(n=3)\nreturn s.other(n=4)", "")
	_, _ = r.process(4)
	r.round(asker0("2025-11-25"), r.saved["job"], "", "")
	delete(r.saved, "job")
	if reply := r.goOn(); !strings.Contains(string(reply.Result), `"type":"permission"`) || !strings.Contains(string(reply.Result), "was removed since the run began") {
		t.Errorf("ended with %s", reply.Result)
	}
	if counts := r.counts(); counts["other 4"] != 0 || counts["remove 2"] != 1 {
		t.Errorf("calls %v", counts)
	}
}

// TestLintDurable checks that a durable tool with a call of a tool that is not idempotent needs a
// rule for calls in doubt.
func TestLintDurable(t *testing.T) {
	r := newDurableRig(t, false)
	r.process(0)
	code := "s.other(n=1)\nreturn s.other(n=2)"
	for def, want := range map[*tools.Definition]int{
		{Name: "job", Code: code}: 0,
		{Name: "job", Code: code, Durability: tools.Durability{Durable: true}}:                             1,
		{Name: "job", Code: code, Durability: tools.Durability{Durable: true, InDoubt: tools.FailInDoubt}}: 0,
		{Name: "job", Code: "return 1", Durability: tools.Durability{Durable: true}}:                       0,
	} {
		found, err := r.composer.LintTool(t.Context(), *def)
		if err != nil || len(found) != want || want > 0 && !strings.Contains(found[0].Message, "s.other is not known to be idempotent") {
			t.Errorf("%+v: %+v, %v", def.Durability, found, err)
		}
	}
	r.idempotent = true
	if found, err := r.composer.LintTool(t.Context(), durableTool(code, "")); err != nil || len(found) > 0 {
		t.Errorf("idempotent: %+v, %v", found, err)
	}
}
