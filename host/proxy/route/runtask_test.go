package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// taskRuns is a composite tool, and the journal of the tool's runs.
type taskRuns struct {
	t      *testing.T
	rig    *rig
	after  time.Duration
	failed error // of the journal
	silent bool  // the journal does not get the beginnings of runs

	mu        sync.Mutex
	count     int
	calls     []Call
	end       chan wire.Reply // ends the current run
	recorded  map[string]RecordedRun
	read      int
	abandoned []string
}

func (f *taskRuns) TaskAfter() time.Duration { return f.after }
func (f *taskRuns) TaskLife() time.Duration  { return time.Minute }

func (f *taskRuns) FindRun(id string) (RecordedRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read++
	found, ok := f.recorded[id]
	switch {
	case f.failed != nil:
		return RecordedRun{}, f.failed
	case !ok:
		return RecordedRun{}, ErrNoRun
	}
	return found, nil
}

func (f *taskRuns) CancelRun(string) error { return ErrNoRun }

func (f *taskRuns) AbandonRun(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandoned = append(f.abandoned, id)
	return nil
}

// CallTool implements Handler.
func (f *taskRuns) CallTool(ctx context.Context, _ string, call Call) wire.Reply {
	f.mu.Lock()
	f.count++
	run := "run-" + string(rune('0'+f.count))
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if call.Began != nil && !f.silent {
		call.Began(run, time.Now())
	}
	select {
	case r := <-f.end:
		return r
	case <-ctx.Done():
		return wire.Reply{Result: ErrorResult(context.Cause(ctx).Error())}
	}
}

// newTaskRuns makes a rig with the composite tool "c", and a session with the task extension.
func newTaskRuns(t *testing.T) (*taskRuns, *fakeSession) {
	g := newRig(t)
	f := &taskRuns{t: t, rig: g, after: 10 * time.Second, end: make(chan wire.Reply), recorded: map[string]RecordedRun{}}
	g.router.Runs = f
	g.router.Catalog.SetComposites([]catalog.Entry{{Name: "c", Kind: catalog.Composite, Definition: []byte(`{"name":"c","inputSchema":{"type":"object"}}`)}})
	g.router.Register(catalog.Composite, f)
	return f, f.session("two", tasksDeclared)
}

func (f *taskRuns) session(name, capabilities string) *fakeSession {
	s := f.rig.session(name, capabilities)
	s.old = stateless
	f.rig.router.Begin(s) // as in the handshake era
	return s
}

// begin calls the tool and returns the id of the task.
func (f *taskRuns) begin(s *fakeSession) string {
	f.t.Helper()
	reply := f.rig.ask(s, "tools/call", `{"name":"c","arguments":{"a":1}}`)
	id, ok := wire.GetString([]byte(reply), "taskId")
	if !ok {
		f.t.Fatal(reply)
	}
	now := time.Now().Add(-f.after).UTC().Format(time.RFC3339Nano)
	if want := `{"resultType":"task","taskId":"` + id + `","status":"working","createdAt":"` + now + `","lastUpdatedAt":"` + now + `","ttlMs":60000,"pollIntervalMs":1000}`; reply != want {
		f.t.Errorf("got  %s\nwant %s", reply, want)
	}
	return id
}

// get returns the task without the times.
func (f *taskRuns) get(s *fakeSession, id string) string {
	f.t.Helper()
	task := f.rig.ask(s, "tasks/get", `{"taskId":"`+id+`"}`)
	if strings.HasPrefix(task, `{"code"`) {
		return task
	}
	return f.brief(task, id)
}

func (f *taskRuns) brief(task, id string) string {
	rest, err := wire.Without([]byte(task), "createdAt", "lastUpdatedAt", "ttlMs")
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Replace(string(rest), id, "ID", 1)
}

func (f *taskRuns) check(s *fakeSession, id, want string) {
	f.t.Helper()
	if got := f.get(s, id); got != `{"resultType":"complete","taskId":"ID",`+want+`}` {
		f.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// update sends answers and returns the reply.
func (f *taskRuns) update(s *fakeSession, id, answers string) string {
	f.t.Helper()
	return f.rig.ask(s, "tasks/update", `{"taskId":"`+id+`","inputResponses":`+answers+`}`)
}

func asksFor(run, questions string) wire.Reply {
	return wire.Reply{Result: []byte(`{"resultType":"input_required","inputRequests":{` + questions + `},"requestState":"` + run + `"}`), Stateless: true}
}

const workingTask = `"status":"working","pollIntervalMs":1000`

// TestRunTask checks a task from the beginning to the end, as several sessions of the principal see
// the task, and no session of another principal.
func TestRunTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		start := time.Now()
		id := f.begin(s)
		if d := time.Since(start); d != f.after {
			t.Errorf("a task after %v", d)
		}
		other, same := f.session("other", tasksDeclared), f.session("two", tasksDeclared)
		f.check(s, id, workingTask)
		stop, ok := f.rig.router.WatchTask(t.Context(), same, id)
		if _, bad := f.rig.router.WatchTask(t.Context(), other, id); !ok || bad {
			t.Error(ok, bad)
		}
		f.end <- wire.Reply{Result: []byte(`{"content":[],"n":1.0,"isError":true}`)}
		synctest.Wait()
		f.check(same, id, `"status":"completed","pollIntervalMs":1000,"result":{"content":[],"n":1.0,"isError":true}`)
		if heard := same.heard(); len(heard) != 1 || f.brief(strings.TrimPrefix(heard[0], "notifications/tasks "), id) != `{"taskId":"ID","status":"completed","pollIntervalMs":1000,"result":{"content":[],"n":1.0,"isError":true}}` {
			t.Errorf("heard %s", heard)
		}
		stop()
		if got := f.get(other, id); !strings.Contains(got, "there is no such task") {
			t.Error(got)
		}
		for _, method := range []string{"tasks/update", "tasks/cancel"} { // after the end they do nothing
			if got := f.rig.ask(s, method, `{"taskId":"`+id+`","inputResponses":{"x":{}}}`); got != "{}" {
				t.Error(got)
			}
		}
		if f.read != 0 || len(f.abandoned)+len(f.rig.router.watched) != 0 {
			t.Errorf("%d reads, abandoned %s, watched %v", f.read, f.abandoned, f.rig.router.watched)
		}
	})
}

// TestNoRunTask checks which calls do not become tasks.
func TestNoRunTask(t *testing.T) {
	for name, set := range map[string]func(*taskRuns) *fakeSession{
		"off":            func(f *taskRuns) *fakeSession { f.after = 0; return f.session("x", tasksDeclared) },
		"not declared":   func(f *taskRuns) *fakeSession { return f.session("x", `{"extensions":{}}`) },
		"no journal":     func(f *taskRuns) *fakeSession { f.silent = true; return f.session("x", tasksDeclared) },
		"handshake era":  func(f *taskRuns) *fakeSession { return f.rig.session("x", tasksDeclared) },
		"too many tasks": func(f *taskRuns) *fakeSession { return f.crowd(f.session("x", tasksDeclared)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := newTaskRuns(t)
				s := set(f)
				time.AfterFunc(time.Minute, func() { f.end <- wire.Reply{Result: []byte(`{"content":[]}`)} })
				start := time.Now()
				if got := f.rig.ask(s, "tools/call", `{"name":"c"}`); got != `{"content":[]}` || time.Since(start) != time.Minute {
					t.Errorf("%v: %s", time.Since(start), got)
				}
			})
		})
	}
}

// crowd makes as many tasks of the session's principal run as can.
func (f *taskRuns) crowd(s *fakeSession) *fakeSession {
	for i := range maxRunTasksOf {
		t := &runTask{router: f.rig.router, root: string(rune('A' + i)), principal: s.Principal(), cancel: func(error) {}}
		if f.rig.router.runTasks.add(t) != nil {
			f.t.Fatal(i)
		}
	}
	return s
}

// TestQuickRun checks that a call that ends in time, or is cancelled, is no task.
func TestQuickRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		time.AfterFunc(f.after-1, func() { f.end <- wire.Reply{Result: []byte(`{"content":[]}`)} })
		if got := f.rig.ask(s, "tools/call", `{"name":"c"}`); got != `{"content":[]}` {
			t.Error(got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(f.after-1, func() { cancel(errors.New("gone")) })
		if got := f.rig.router.Handle(ctx, Call{Method: "tools/call", Origin: s.request("r"), Params: []byte(`{"name":"c"}`)}); !strings.Contains(string(got.Result), "gone") {
			t.Errorf("%s", got.Result)
		}
		if n := len(f.rig.router.runTasks.byRun); n != 0 {
			t.Errorf("%d tasks", n)
		}
	})
}

// TestRunTaskAsks checks that a task asks the client, all answers together make the next run, and
// the names of the questions are unique.
func TestRunTaskAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		id := f.begin(s)
		f.end <- asksFor("run-1", `"q1":{"method":"roots/list"},"q2":{"method":"x"}`)
		synctest.Wait()
		f.check(s, id, `"status":"input_required","pollIntervalMs":5000,"inputRequests":{"1.q1":{"method":"roots/list"},"1.q2":{"method":"x"}}`)
		for answers, want := range map[string]string{
			`{"1.q1":1}`: `{"code":-32602,"message":"tasks/update: the answer \"1.q1\" must be an object"}`,
			`[]`:         `{"code":-32602,"message":"tasks/update: params.inputResponses must be an object"}`,
			`{"q2":{}}`:  `{}`, // unknown
		} {
			if got := f.update(s, id, answers); got != want {
				t.Errorf("%s: %s", answers, got)
			}
		}
		f.update(s, id, `{"1.q2":{"n":1.0}}`)
		f.update(s, id, `{"1.q2":{"late":1}}`)
		f.check(s, id, `"status":"input_required","pollIntervalMs":5000,"inputRequests":{"1.q1":{"method":"roots/list"}}`)
		f.update(s, id, `{"1.q1":{"roots":[]}}`)
		synctest.Wait()
		f.check(s, id, workingTask)
		last := f.calls[len(f.calls)-1]
		if r := last.Resume; len(f.calls) != 2 || r == nil || r.Run != "run-1" || string(r.Responses) != `{"q1":{"roots":[]},"q2":{"n":1.0}}` || string(last.Params) != `{"name":"c","arguments":{"a":1}}` {
			t.Errorf("%d calls, %+v %s", len(f.calls), r, last.Params)
		}
		f.end <- asksFor("run-2", `"q1":{"method":"x"}`)
		synctest.Wait()
		f.check(s, id, `"status":"input_required","pollIntervalMs":5000,"inputRequests":{"2.q1":{"method":"x"}}`)
		f.rig.ask(s, "tasks/cancel", `{"taskId":"`+id+`"}`)
		f.check(s, id, `"status":"cancelled","statusMessage":"cancelled by the client before it answered","pollIntervalMs":1000`)
		want(t, "abandoned", f.abandoned, "run-2")
	})
}

// TestRunTaskCancelled checks that tasks/cancel ends the run.
func TestRunTaskCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		id := f.begin(s)
		if got := f.rig.ask(s, "tasks/cancel", `{"taskId":"`+id+`"}`); got != "{}" {
			t.Error(got)
		}
		synctest.Wait()
		f.check(s, id, `"status":"cancelled","statusMessage":"cancelled by the client: tasks/cancel","pollIntervalMs":1000`)
	})
}

// TestRunTaskOfJournal checks the journal's view of a task missing in memory.
func TestRunTaskOfJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		id := f.begin(s)
		f.end <- wire.Reply{Result: []byte(`{}`)}
		synctest.Wait()
		forget := func(now RecordedRun) {
			f.rig.router.runTasks.remove(f.rig.router.runTasks.get("run-1"))
			f.recorded["run-1"] = now
		}
		found := RecordedRun{ID: "run-9", Runs: 3, Kind: catalog.Composite, Name: "c", Params: []byte(`{"name":"c"}`), Status: protocol.TaskWorking}
		forget(found)
		f.check(s, id, `"status":"working","pollIntervalMs":5000`)
		found.Status, found.Reply = protocol.TaskInputRequired, asksFor("run-9", `"q1":{"method":"x"}`)
		f.recorded["run-1"] = found
		f.check(s, id, `"status":"working","pollIntervalMs":5000`) // read a moment ago
		if f.read != 1 {
			t.Errorf("the journal was read %d times", f.read)
		}
		time.Sleep(recordedLife)
		f.check(s, id, `"status":"input_required","pollIntervalMs":5000,"inputRequests":{"3.q1":{"method":"x"}}`)
		f.update(s, id, `{"3.q1":{}}`)
		synctest.Wait()
		if last := f.calls[len(f.calls)-1]; last.Resume == nil || last.Resume.Run != "run-9" || string(last.Params) != `{"name":"c"}` {
			t.Errorf("%+v %s", last.Resume, last.Params)
		}
		f.check(s, id, workingTask)
		f.end <- wire.Reply{Error: []byte(`{"code":1,"message":"m"}`)}
		synctest.Wait()
		f.check(s, id, `"status":"failed","pollIntervalMs":1000,"error":{"code":1,"message":"m"}`)

		found.Status, found.Reply, found.Note = protocol.TaskCancelled, wire.Reply{Result: ErrorResult("why")}, "note"
		forget(found)
		f.check(s, id, `"status":"cancelled","statusMessage":"why","pollIntervalMs":1000`)
		found.Status, found.Reply = protocol.TaskCompleted, wire.Reply{Result: []byte(`{"n":1.0}`)}
		forget(found)
		f.check(s, id, `"status":"completed","statusMessage":"note","pollIntervalMs":1000,"result":{"n":1.0}`)
		f.rig.router.runTasks.remove(f.rig.router.runTasks.get("run-1"))
		f.failed = errors.New("disk")
		if got := f.get(s, id); got != `{"code":-32603,"message":"tasks/get: the journal cannot be read"}` {
			t.Error(got)
		}
		var log mcptest.Buffer
		f.rig.router.Log = slog.New(slog.NewTextHandler(&log, nil))
		f.failed = fmt.Errorf("%w: it does not answer", ErrStoreAway)
		for range 3 {
			if got := f.get(s, id); got != `{"code":-32603,"message":"tasks/get: the record of this task is in the store of the fleet, which is not available now (try again later)"}` {
				t.Error(got)
			}
		}
		if log.String() != "" { // the fleet reports the missing store once
			t.Errorf("logged: %s", log.String())
		}
		f.failed = nil
		delete(f.recorded, "run-1")
		if got := f.get(s, id); got != `{"code":-32602,"message":"tasks/get: there is no such task"}` {
			t.Error(got)
		}
	})
}

// TestRunTaskGoesOnElsewhere checks that a question already answered to another process is no
// longer asked.
func TestRunTaskGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		id := f.begin(s)
		f.end <- asksFor("run-1", `"q1":{"method":"x"}`)
		synctest.Wait()
		f.recorded["run-1"] = RecordedRun{ID: "run-1", Runs: 1, Status: protocol.TaskInputRequired, Reply: asksFor("run-1", "")}
		time.Sleep(recordedLife)
		f.check(s, id, `"status":"input_required","pollIntervalMs":5000,"inputRequests":{"1.q1":{"method":"x"}}`)
		f.recorded["run-1"] = RecordedRun{ID: "run-7", Runs: 2, Status: protocol.TaskCompleted, Reply: wire.Reply{Result: []byte(`{"n":1}`)}}
		time.Sleep(recordedLife)
		if got := f.update(s, id, `{"1.q1":{}}`); got != "{}" || len(f.calls) != 1 {
			t.Errorf("%s, %d calls", got, len(f.calls))
		}
		f.check(s, id, `"status":"completed","pollIntervalMs":1000,"result":{"n":1}`)
	})
}

// TestAnswersTakenElsewhere checks that a task goes on as in the journal if another process was
// faster to take the answers.
func TestAnswersTakenElsewhere(t *testing.T) {
	for runs, want := range map[int]string{
		1: `"status":"completed","pollIntervalMs":1000,"result":` + string(ErrorResult("refused")), // for another reason
		2: `"status":"completed","pollIntervalMs":1000,"result":{"n":1}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, s := newTaskRuns(t)
			id := f.begin(s)
			f.end <- asksFor("run-1", `"q1":{"method":"x"}`)
			synctest.Wait()
			f.silent = true // as for a refused run
			f.update(s, id, `{"1.q1":{}}`)
			f.recorded["run-1"] = RecordedRun{ID: "run-7", Runs: runs, Status: protocol.TaskCompleted, Reply: wire.Reply{Result: []byte(`{"n":1}`)}}
			f.end <- wire.Reply{Result: ErrorResult("refused")}
			synctest.Wait()
			f.check(s, id, want)
		})
	}
}

// TestRunTasksBounds checks that the oldest idle tasks are forgotten.
func TestRunTasksBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		running := f.begin(s)
		all := &f.rig.router.runTasks
		for i := range maxKeptTasks + 5 {
			done := &runTask{router: f.rig.router, root: string(rune('A' + i)), cancel: func(error) {}}
			all.add(done)
			done.cancel = nil
		}
		all.shrink()
		if len(all.order) != maxKeptTasks+1 || all.get("A") != nil || all.get("F") == nil {
			t.Errorf("%d tasks", len(all.order))
		}
		all.order[len(all.order)-1].reply.Result = make([]byte, maxKeptTaskSize+1)
		all.shrink()
		if len(all.order) != 1 {
			t.Errorf("%d tasks", len(all.order))
		}
		f.check(s, running, workingTask)
	})
}
