package route

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestQuestionsOfATaskAreBounded checks that a task of the handshake era has a limited number of
// open questions, for a limited time, the server is told about the limit, and an answer makes room.
func TestQuestionsOfATaskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, up, s := bridgedRig(t, required, takesAll)
		id := g.bridge(s)
		up.isNow("working")
		answers := make(chan wire.Reply, maxQuestions+2)
		ask := func() {
			answers <- g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Params: []byte(`{` + related + `}`)})
		}
		for range maxQuestions {
			go ask()
		}
		synctest.Wait()
		ask()
		if got := <-answers; string(got.Error) != `{"code":-32603,"message":"roots/list: the task has more than 32 questions open"}` {
			t.Errorf("one more: %s %s", got.Result, got.Error)
		}
		g.ask(s, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"q1":{"roots":[]}}}`)
		if got := <-answers; string(got.Result) != `{"roots":[]}` {
			t.Errorf("answered: %s %s", got.Result, got.Error)
		}
		go ask()
		synctest.Wait()
		if got := g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); strings.Count(got, `"method":"roots/list"`) != maxQuestions || !strings.Contains(got, `"q33"`) {
			t.Errorf("open: %s", got)
		}
		time.Sleep(taskWait - time.Second)
		synctest.Wait()
		if len(answers) > 0 {
			t.Error("a question does not wait for an hour")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(answers) != maxQuestions {
			t.Fatalf("%d questions have ended after an hour", len(answers))
		}
		if got := <-answers; !strings.Contains(string(got.Error), "the client did not answer within 1h0m0s") {
			t.Errorf("after an hour: %s %s", got.Result, got.Error)
		}
		if got := g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("after an hour: %s", got)
		}
		g.router.Close()
	})
}

// TestResultOfATaskIsAwaitedForAnHour checks that the wait for the result of a task of the
// handshake era ends: for a call that needs the result, and in the background for the questions of
// the task, where the wait can begin again.
func TestResultOfATaskIsAwaitedForAnHour(t *testing.T) {
	waits := func(causes chan<- error) func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
		return func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return wire.Reply{}, context.Cause(ctx)
		}
	}
	t.Run("call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := eras(t, stateless, `{}`)
			g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(required)}, nil)
			up.on("tools/call", `{"task":{"taskId":"own","status":"working"}}`)
			causes := make(chan error, 1)
			up.answer["tasks/result"] = waits(causes)
			start := time.Now()
			got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
			if d := time.Since(start); d != taskWait || !strings.Contains(got, "its task did not end within 1h0m0s") {
				t.Errorf("after %v: %s", d, got)
			}
			synctest.Wait()
			if sent := up.sent(); sent[len(sent)-1] != `tasks/cancel {"taskId":"own"}` {
				t.Errorf("sent %s", sent)
			}
			g.router.Close()
		})
	})
	t.Run("question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := bridgedRig(t, required, takesAll)
			id := g.bridge(s)
			causes := make(chan error, 2)
			up.answer["tasks/result"] = waits(causes)
			up.isNow("input_required")
			for range 2 {
				up.sent()
				start := time.Now()
				for range 3 { // all three share a request
					g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`)
				}
				if n := strings.Count(strings.Join(up.sent(), "\n"), "tasks/result"); n != 1 {
					t.Errorf("%d requests for the result", n)
				}
				if err := <-causes; err != errTaskWait || time.Since(start) != taskWait {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				synctest.Wait()
			}
			g.router.Close()
		})
	})
}

// TestBridgedTasksAreBounded checks the error for a client when too many tasks wait for answers and
// another task cannot be remembered, and a task that no longer waits makes room.
func TestBridgedTasksAreBounded(t *testing.T) {
	g, _, s := bridgedRig(t, optional, takesAll)
	id := g.bridge(s)
	a := &g.router.bridged
	a.drop(a.order[0])
	for i := range maxBridgedFor {
		one, err := a.get(g.router, watchKey{id: fmt.Sprint(i)}, s)
		if err != nil {
			t.Fatal(i, err)
		}
		one.questions = []*taskQuestion{{}}
	}
	if got := g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); got != `{"code":-32603,"message":"tasks/get: too many tasks wait for answers (try again later)"}` {
		t.Errorf("one more: %s", got)
	}
	if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); !strings.Contains(got, `upstream \"a\" has made a task that cannot be reached, because too many tasks wait for answers`) {
		t.Errorf("another one: %s", got)
	}
	a.order[7].questions = nil
	if got := g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("when one has its answers: %s", got)
	}
}

// TestRunningTasksAreBounded checks that no calls become tasks while too many tasks of runs go on,
// of a principal or of all: the client waits for the result instead. When a task has ended, calls
// become tasks again.
func TestRunningTasksAreBounded(t *testing.T) {
	for of, most := range map[string]int{"two": maxRunTasksOf, "": maxRunTasks} { // "": a task for each principal
		synctest.Test(t, func(t *testing.T) {
			f, s := newTaskRuns(t)
			all := &f.rig.router.runTasks
			asks := f.begin(s)
			f.end <- asksFor("run-1", `"a":{"method":"roots/list"}`)
			synctest.Wait()
			for i := range most {
				principal := of
				if of == "" {
					principal = fmt.Sprint(i)
				}
				if err := all.add(&runTask{router: f.rig.router, root: fmt.Sprint("other", i), principal: principal, cancel: func(error) {}}); err != nil {
					t.Fatal(i, err)
				}
			}
			if got := f.update(s, asks, `{"1.a":{"roots":[]}}`); got != `{"code":-32603,"message":"tasks/update: too many tasks run (try again later)"}` {
				t.Errorf("%q: a task that goes on: %s", of, got)
			}
			got := make(chan string)
			go func() { got <- f.rig.ask(s, "tools/call", `{"name":"c","arguments":{"a":1}}`) }()
			time.Sleep(10 * f.after)
			synctest.Wait()
			f.end <- wire.Reply{Result: []byte(`{"content":[]}`)}
			if got := <-got; got != `{"content":[]}` {
				t.Errorf("%q: one more: %s", of, got)
			}
			all.remove(all.get("other7"))
			f.begin(s)
			f.end <- wire.Reply{Result: []byte(`{"content":[]}`)}
			synctest.Wait()
			f.rig.router.Close()
		})
	}
}
