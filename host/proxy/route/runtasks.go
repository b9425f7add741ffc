package route

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
)

// Bounds of the tasks in memory. While too many run, calls do not become tasks. The oldest tasks
// that do not run are forgotten, since the journal has them.
const (
	maxRunTasks     = 256 // running
	maxRunTasksOf   = 128 // running, of a principal
	maxKeptTasks    = 256 // not running
	maxKeptTaskSize = 64 << 20
	runTaskMemory   = 4 << 10 // of each task, about, in bytes, without the kept messages
)

// recordedLife is how long the records of a task in the journal are taken as current, if the task
// goes on in another process, or may.
const recordedLife = time.Second

// runTasks are the tasks of runs in memory.
type runTasks struct {
	reading keyedMutex[string] // serializes reading the journal for a principal

	mu    sync.Mutex // guards the fields below; runTask.mu is locked below this mutex
	byRun map[string]*runTask
	order []*runTask // oldest first
}

// errManyTasks reports that too many tasks run.
var errManyTasks = errors.New("too many tasks run (try again later)")

// add adds a running task. The error is errManyTasks, or reports missing memory for the task.
func (a *runTasks) add(t *runTask) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	running, of := 0, 0
	for _, other := range a.order {
		if other != t && other.isRunning() {
			running++
			if other.principal == t.principal {
				of++
			}
		}
	}
	if running >= maxRunTasks || of >= maxRunTasksOf {
		return errManyTasks
	}
	return a.put(t)
}

// put adds or replaces a task. The error reports missing memory for the task. The caller holds
// a.mu.
func (a *runTasks) put(t *runTask) error {
	old := a.byRun[t.root]
	if old == t {
		return nil
	}
	kept := t.router.Budget.OpenKept(t.owner, "tasks of this client")
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := kept.Set(t.size()); err != nil {
		kept.Close()
		return errors.New(limits.Explain(err))
	}
	t.kept = kept
	a.drop(old)
	a.byRun[t.root] = t
	a.order = append(a.order, t)
	return nil
}

// drop removes a task other than nil. The caller holds a.mu.
func (a *runTasks) drop(t *runTask) {
	if t != nil && a.byRun[t.root] == t {
		delete(a.byRun, t.root)
		t.kept.Close()
		a.order = slices.DeleteFunc(a.order, func(other *runTask) bool { return other == t })
	}
}

func (a *runTasks) remove(t *runTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(t)
}

func (a *runTasks) get(run string) *runTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byRun[run]
}

// shrink forgets tasks beyond the bounds.
func (a *runTasks) shrink() {
	a.mu.Lock()
	defer a.mu.Unlock()
	count, size := 0, 0
	for _, t := range slices.Backward(slices.Clone(a.order)) {
		if t.isRunning() {
			continue
		}
		count++
		t.mu.Lock()
		size += int(t.size())
		t.mu.Unlock()
		if count > maxKeptTasks || size > maxKeptTaskSize {
			a.drop(t)
		}
	}
}

// isRunning reports whether a run of the task goes on in this process.
func (t *runTask) isRunning() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cancel != nil
}

// size returns about how many bytes the task holds. The caller holds t.mu.
func (t *runTask) size() int64 {
	n := runTaskMemory + len(t.params) + t.given + len(t.reply.Result) + len(t.reply.Error)
	for _, q := range t.questions {
		n += len(q.Value) + len(t.answers[q.Name])
	}
	return int64(n)
}

// isCurrent reports whether the task in memory can be taken as current.
func (t *runTask) isCurrent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.status {
	case protocol.TaskWorking:
		return !t.recorded || time.Since(t.read) < recordedLife
	case protocol.TaskInputRequired: // another process may have got the answers
		return time.Since(t.read) < recordedLife
	}
	return true
}

// findRunTask returns a task of a principal: from memory or from the journal. The error is
// ErrNoRun, or the reason why the journal cannot be read.
func (r *Router) findRunTask(ctx context.Context, s Session, run string) (*runTask, error) {
	if t := r.runTasks.get(run); t != nil && t.isCurrent() {
		return t, nil
	}
	unlock, err := r.runTasks.reading.lock(ctx, s.Principal())
	if err != nil {
		return nil, err
	}
	defer unlock()
	t := r.runTasks.get(run)
	if t != nil && t.isCurrent() { // another request has read the task
		return t, nil
	}
	if r.Runs == nil {
		return nil, ErrNoRun
	}
	found, err := r.Runs.FindRun(run)
	if t != nil && t.supersedes(found, err) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t = r.recordedTask(run, s, found)
	r.runTasks.mu.Lock()
	_ = r.runTasks.put(t) // on an error, the task is read again later
	r.runTasks.mu.Unlock()
	r.runTasks.shrink()
	return t, nil
}

// supersedes reports whether a task in memory is newer than the records of the journal.
func (t *runTask) supersedes(found RecordedRun, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recorded && err != nil || !t.recorded && err == nil && found.Runs > t.runs && t.cancel == nil {
		return false
	}
	if t.recorded && (found.Runs != t.runs || found.Status != t.status) {
		return false
	}
	t.read = time.Now()
	return true
}

// recordedTask returns the task from records of the journal.
func (r *Router) recordedTask(run string, s Session, found RecordedRun) *runTask {
	t := &runTask{
		router: r, root: run, principal: s.Principal(), owner: BudgetKey(s), created: found.Start, changed: found.Changed, read: time.Now(),
		kind: found.Kind, name: found.Name, params: found.Params, recorded: true,
		status: found.Status, runs: found.Runs, message: found.Note,
	}
	switch found.Status {
	case protocol.TaskInputRequired:
		t.ask(found.Reply)
	case protocol.TaskCancelled:
		t.message = text(found.Reply)
	default:
		t.reply = found.Reply
	}
	return t
}
