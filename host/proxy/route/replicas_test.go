package route

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// fakeReplicas is a fleet with another replica, "other".
type fakeReplicas struct {
	ended   bool // the replica has ended for good
	live    bool // the replica can be watched
	shared  string
	changed func(task []byte)
	over    chan struct{}
	stopped int
}

func (f *fakeReplicas) Shares(server string) bool { return server == f.shared }
func (f *fakeReplicas) Lost(replica string) (string, bool) {
	return "replica " + replica + ", which is away", f.ended
}

func (f *fakeReplicas) WatchTask(_ context.Context, replica string, _ Session, _ string, changed func([]byte)) (func(), <-chan struct{}, bool) {
	if !f.live || replica != "other" {
		return nil, nil, false
	}
	f.changed, f.over = changed, make(chan struct{})
	return func() { f.stopped++ }, f.over, true
}

// sealers returns the Sealers of this replica and of the other replica.
func sealers() (here, other *requeststate.Sealer) {
	key := requeststate.NewKey()
	of := func(home string) *requeststate.Sealer {
		return requeststate.NewShared(requeststate.Options{Keys: func() [][]byte { return [][]byte{key} }, Home: home, Now: time.Now})
	}
	return of("here"), of("other")
}

// TestTaskOfReplica checks the answers about tasks of another replica, and how changes of the tasks
// arrive while the replica runs and afterwards.
func TestTaskOfReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newTaskRuns(t)
		replicas := &fakeReplicas{live: true, shared: "shared"}
		here, other := sealers()
		f.rig.router.Sealer, f.rig.router.Replicas = here, replicas
		id, err := other.SealHere(requeststate.Task, TaskBinding(s.Principal()), []byte("\x00run-7"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		about := `{"taskId":"` + id + `"}`
		expect := func(want ...string) {
			t.Helper()
			got := f.rig.ask(s, "tasks/get", about)
			for _, part := range want {
				if !strings.Contains(got, part) {
					t.Errorf("got %s, want %s", got, part)
				}
			}
		}
		expect("-32603", "the run of this task is in replica other, which is away (try again later")
		replicas.ended = true
		expect("-32602", "the run of this task was in replica other, which is away: it is lost")

		stop, ok := f.rig.router.WatchTask(t.Context(), s, id)
		if !ok {
			t.Fatal("it is not watched")
		}
		replicas.changed([]byte(`{"taskId":"` + id + `","status":"working"}`))
		if heard := s.heard(); len(heard) != 1 || !strings.Contains(heard[0], `"status":"working"`) {
			t.Errorf("heard %s", heard)
		}
		// The replica ends, and the run goes on elsewhere.
		now := RecordedRun{ID: "run-7", Runs: 1, Kind: catalog.Composite, Name: "c", Params: []byte(`{"name":"c"}`), Status: protocol.TaskWorking}
		f.set("run-7", now)
		close(replicas.over)
		synctest.Wait()
		now.Status, now.Reply = protocol.TaskCompleted, wire.Reply{Result: []byte(`{"content":[]}`)}
		f.set("run-7", now)
		time.Sleep(2 * recordedPoll)
		synctest.Wait()
		if heard := s.heard(); len(heard) != 2 || !strings.Contains(heard[1], `"status":"completed"`) || !strings.Contains(heard[1], id) {
			t.Errorf("heard %s", heard)
		}
		expect(`"status":"completed"`)
		stop()
		if replicas.stopped != 1 {
			t.Errorf("stopped %d times", replicas.stopped)
		}
		// A replica lost from the beginning.
		replicas.live = false
		now.Status, now.Reply = protocol.TaskWorking, wire.Reply{}
		f.rig.router.runTasks.remove(f.rig.router.runTasks.get("run-7"))
		f.set("run-7", now)
		if stop, ok = f.rig.router.WatchTask(t.Context(), s, id); !ok {
			t.Fatal("its records are not watched")
		}
		now.Status = protocol.TaskFailed
		f.set("run-7", now)
		time.Sleep(2 * recordedPoll)
		synctest.Wait()
		if heard := s.heard(); len(heard) != 1 || !strings.Contains(heard[0], `"status":"failed"`) {
			t.Errorf("heard %s", heard)
		}
		stop()
		for server, want := range map[string]string{"a": "a task of its server", "shared": "there is no such task"} { // the task of "shared" is unknown here
			id, _ := other.SealHere(requeststate.Task, TaskBinding(s.Principal()), []byte(server+"\x00own"), time.Hour)
			if got := f.rig.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, want) {
				t.Errorf("%s: %s", server, got)
			}
			if _, ok := f.rig.router.WatchTask(t.Context(), s, id); ok {
				t.Errorf("%s: it is watched", server)
			}
		}
	})
}

// set sets the records of a run in the journal.
func (f *taskRuns) set(id string, run RecordedRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded[id] = run
}
