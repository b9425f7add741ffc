package route

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// A long call of a composite tool becomes a task of the extension, if the client declares the
// extension. The id of the task has the id of its first run sealed in it, and the journal has the
// records of the runs. So a task is found again after a restart.

// Runs knows the runs of composite tools from their records.
type Runs interface {
	// TaskAfter returns how long a call runs before the call becomes a task; 0: never.
	TaskAfter() time.Duration
	// TaskLife returns how long records are kept.
	TaskLife() time.Duration
	// FindRun returns the records of the run with an id, and of the runs that continue it. The
	// error is ErrNoRun for an unknown run, or ErrStoreAway if the store cannot be asked.
	FindRun(id string) (RecordedRun, error)
	// CancelRun asks for the end of a durable run that does not run here, or was begun by a process
	// that has ended. The error is ErrNoRun for an unknown run.
	CancelRun(id string) error
	// AbandonRun records that a run with questions for the client will not go on.
	AbandonRun(id string) error
}

// ErrNoRun reports a run without a record.
var ErrNoRun = errors.New("there is no record of the run")

// ErrStoreAway reports that the store that may have the record of a run is not available now. The
// keeper of the store tells the user about the missing store.
var ErrStoreAway = errors.New("the store of records is not available")

// RecordedRun is the content of the records of a run, and of the runs that continue it.
type RecordedRun struct {
	ID             string // of the last run
	Runs           int    // the number of runs
	Start, Changed time.Time
	// Kind, Name and Params are those of the call.
	Kind   catalog.Kind
	Name   string
	Params []byte
	Status protocol.TaskStatus
	// Reply is like the reply of Handler.CallTool; none if Status is working.
	Reply wire.Reply
	Note  string // for people; "" for none
}

// Holder is a Session that can be kept from ending while without requests.
type Holder interface {
	// Hold keeps the session until release is called.
	Hold() (release func())
}

// Intervals at which clients should ask for a task.
const (
	runningPoll = time.Second
	waitingPoll = 5 * time.Second // the task waits for the client, or runs elsewhere
)

var errTaskCancelled = &wire.CancelledError{Params: []byte(`{"reason":"tasks/cancel"}`)}

// runTask is a task carried out by runs of a composite tool.
type runTask struct {
	router    *Router
	root      string // id of the first run
	principal string
	created   time.Time
	kind      catalog.Kind
	name      string
	params    []byte // of tools/call
	owner     any    // in the budget

	mu        sync.Mutex // guards the fields below; a leaf, but for the budget
	recorded  bool       // the fields are from the journal; no run of the task has begun here
	read      time.Time  // when the journal was read last
	status    protocol.TaskStatus
	message   string
	changed   time.Time
	runs      int
	last      string     // id of the last run with questions
	reply     wire.Reply // of the last ended run
	questions []wire.Member
	answers   map[string][]byte // to some of questions, by name
	given     int               // bytes of the answers given to the run
	kept      *budget.Account   // while the task is in Router.runTasks
	cancel    context.CancelCauseFunc
	cancelled bool // by the client
	refused   bool // the last run has not begun
}

// runTool calls a tool of ours. A long call becomes a task.
func (r *Router) runTool(ctx context.Context, kind catalog.Kind, name string, call Call) wire.Reply {
	if r.Runs == nil || !takesTasks(call.Origin) || r.Runs.TaskAfter() <= 0 {
		return r.handlers[kind].CallTool(ctx, name, call)
	}
	t := &runTask{
		router: r, principal: call.Origin.Session().Principal(), kind: kind, name: name, params: call.Params,
		owner: BudgetKey(call.Origin.Session()), status: protocol.TaskWorking, runs: 1,
	}
	began := make(chan struct{})
	call.Began = func(run string, start time.Time) {
		t.root, t.created = run, start
		close(began)
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	attached := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	done := r.start(own, cancel, kind, name, call)
	elapsed := make(chan struct{})
	timer := time.AfterFunc(r.Runs.TaskAfter(), func() { close(elapsed) })
	defer timer.Stop()
	for _, due := range []<-chan struct{}{began, elapsed} {
		select {
		case reply := <-done:
			return reply
		case <-due:
		}
	}
	t.changed, t.cancel = t.created, cancel
	id, err := t.seal(call.Origin.Session())
	if err != nil || r.runTasks.add(t) != nil || !attached() { // too many; or the client has cancelled the call
		r.runTasks.remove(t)
		return <-done
	}
	t.follow(call.Origin.Session(), done)
	return wire.Reply{Result: t.describe(envelope.TypeTask, id), Own: true}
}

// seal returns the id of the task for a client.
func (t *runTask) seal(s Session) (string, error) {
	return t.router.Sealer.SealHere(requeststate.Task, TaskBinding(s.Principal()), append([]byte{0}, t.root...), taskLife)
}

// start calls a tool of ours on a goroutine of the router, until the router is closed.
func (r *Router) start(ctx context.Context, cancel context.CancelCauseFunc, kind catalog.Kind, name string, call Call) <-chan wire.Reply {
	done := make(chan wire.Reply, 1)
	r.inBackground(func() {
		stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
		done <- r.handlers[kind].CallTool(ctx, name, call)
		stop()
		cancel(nil)
	})
	return done
}

// follow waits for the end of a run of the task, in the background.
func (t *runTask) follow(s Session, done <-chan wire.Reply) {
	release := func() {}
	if h, ok := s.(Holder); ok {
		release = h.Hold()
	}
	t.router.inBackground(func() {
		defer release()
		t.ended(<-done)
	})
}

// ended sets the outcome of a run of the task.
func (t *runTask) ended(reply wire.Reply) {
	t.mu.Lock()
	t.changed, t.cancel = time.Now(), nil
	abandoned := asks(reply) && t.cancelled
	switch {
	case reply.Elsewhere:
		t.recorded, t.read = true, time.Time{}
	case t.refused && failed(reply) && t.elsewhere():
	case asks(reply):
		t.ask(reply)
	case reply.Error != nil:
		t.status, t.reply = protocol.TaskFailed, reply
	case t.cancelled && failed(reply):
		t.status, t.message = protocol.TaskCancelled, text(reply)
	default:
		t.status, t.reply = protocol.TaskCompleted, reply
	}
	t.given = 0
	full := t.kept.Set(t.size()) != nil
	t.mu.Unlock()
	if full {
		t.router.runTasks.remove(t) // the journal has the task
	}
	if abandoned {
		t.abandon()
		return
	}
	t.router.runTasks.shrink()
	t.tell()
}

// elsewhere reports whether another process has taken the answers to the questions of the task. The
// further course is then in the journal. The caller holds t.mu.
func (t *runTask) elsewhere() bool {
	found, err := t.router.Runs.FindRun(t.root)
	if err != nil || found.Runs < t.runs {
		return false
	}
	t.recorded, t.read = true, time.Time{}
	return true
}

// ask sets the questions of a run that asks the client. Their names are unique in the task. The
// caller holds t.mu.
func (t *runTask) ask(reply wire.Reply) {
	t.status, t.questions, t.answers = protocol.TaskInputRequired, nil, map[string][]byte{}
	t.read = time.Now()
	t.last, _ = wire.GetString(reply.Result, "requestState")
	requests, _ := wire.Get(reply.Result, "inputRequests")
	all, _ := wire.Members(requests)
	for _, m := range all {
		t.questions = append(t.questions, wire.Member{Name: t.prefix() + m.Name, Value: m.Value})
	}
}

// prefix begins the names of the questions of the last run.
func (t *runTask) prefix() string { return strconv.Itoa(t.runs) + "." }

// abandon ends a task that has asked the client.
func (t *runTask) abandon() {
	t.mu.Lock()
	last, open := t.last, t.status == protocol.TaskInputRequired
	if open {
		t.status, t.message, t.changed = protocol.TaskCancelled, "cancelled by the client before it answered", time.Now()
		t.questions, t.answers = nil, nil
	}
	t.mu.Unlock()
	if !open {
		return
	}
	if err := t.router.Runs.AbandonRun(last); err != nil {
		t.router.Log.Warn("the journal does not have that a task was cancelled", "run", last, "err", err)
	}
	t.tell()
}

// tell tells the sessions that watch the task the current state.
func (t *runTask) tell() {
	t.router.tellWatchers(watchKey{id: t.root}, t.describe("", t.root))
}

// failed reports whether a result is the result of a failed tool.
func failed(reply wire.Reply) bool {
	raw, _ := wire.Get(reply.Result, "isError")
	return string(raw) == "true"
}

// text returns the first text of a result.
func text(reply wire.Reply) string {
	raw, _ := wire.Get(reply.Result, "content")
	blocks, _ := wire.Elements(raw)
	if len(blocks) == 0 {
		return ""
	}
	first, _ := wire.GetString(blocks[0], "text")
	return cut(first, maxUnavailable)
}

// describe returns the task in the form for clients, with a type, and under an id. The type "" is
// for a notification.
func (t *runTask) describe(kind, id string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var task wire.Object
	task.NonEmpty("resultType", kind)
	task.Text("taskId", id)
	task.Text("status", string(t.status))
	task.NonEmpty("statusMessage", t.message)
	task.Text("createdAt", t.created.UTC().Format(time.RFC3339Nano))
	task.Text("lastUpdatedAt", t.changed.UTC().Format(time.RFC3339Nano))
	task.Int("ttlMs", t.router.Runs.TaskLife().Milliseconds())
	poll := runningPoll
	if t.status == protocol.TaskInputRequired || t.recorded && t.status == protocol.TaskWorking {
		poll = waitingPoll
	}
	task.Int("pollIntervalMs", poll.Milliseconds())
	switch t.status {
	case protocol.TaskInputRequired:
		var open wire.Object
		for _, q := range t.questions {
			if t.answers[q.Name] == nil {
				open.Raw(q.Name, q.Value)
			}
		}
		task.Raw("inputRequests", open.Bytes())
	case protocol.TaskCompleted:
		task.Raw("result", t.reply.Result)
	case protocol.TaskFailed:
		task.Raw("error", t.reply.Error)
	}
	return task.Bytes()
}
