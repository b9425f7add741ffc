package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds of the remembered tasks of the handshake era. Ended tasks are forgotten, so that these
// bounds are about running tasks.
const (
	maxBridged    = 1024    // of all principals
	maxBridgedFor = 256     // of a principal
	bridgedMemory = 4 << 10 // of each task, about, in bytes, without the kept questions
)

// bridgedTask is a task of an upstream of the handshake era, which a client of the stateless era
// has as a task of the extension. Questions of the upstream for the task wait here until the client
// asks for the task, and answers. So a bridgedTask is the Origin of these questions.
type bridgedTask struct {
	router  *Router
	session Session // of the request for which the task was found
	key     watchKey

	mu        sync.Mutex // guards the fields below; a leaf, but for the budget
	kept      *budget.Account
	client    []byte // the last description of the client by itself
	revision  protocol.Revision
	asked     int // the number of questions so far
	questions []*taskQuestion
	fresh     chan struct{}      // closed by another question, or a change of the task
	stop      context.CancelFunc // of the open request for the result; nil for none
}

// taskQuestion is a request of an upstream to the client for a task.
type taskQuestion struct {
	name    string
	method  string
	request []byte // in the form for the client
	answer  chan wire.Reply
}

// bridgedTasks are the remembered tasks. The zero value is empty.
type bridgedTasks struct {
	mu    sync.Mutex // guards the fields below; bridgedTask.mu is locked below this mutex
	byKey map[watchKey]*bridgedTask
	order []*bridgedTask // oldest first
}

// Reasons why a task cannot be reached.
var (
	errManyBridged = errors.New("too many tasks wait for answers (try again later)")
	errNotOwn      = errors.New("it belongs to another user")
)

// get returns a task of a principal, and remembers the task from now on. The error is
// errManyBridged, errNotOwn, or reports that no memory is left for another task.
func (a *bridgedTasks) get(r *Router, key watchKey, o Origin) (*bridgedTask, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	principal := o.Session().Principal()
	if t := a.byKey[key]; t != nil {
		if t.session.Principal() != principal {
			return nil, errNotOwn
		}
		t.asks(o)
		return t, nil
	}
	own := func(other *bridgedTask) bool { return other.session.Principal() == principal }
	if !a.makeRoom(maxBridgedFor, own) || !a.makeRoom(maxBridged, func(*bridgedTask) bool { return true }) {
		return nil, errManyBridged
	}
	t := &bridgedTask{router: r, session: o.Session(), key: key, fresh: make(chan struct{})}
	t.kept = r.Budget.OpenKept(BudgetKey(t.session), "tasks of this client")
	if err := t.kept.Add(bridgedMemory); err != nil {
		t.kept.Close()
		return nil, errors.New(limits.Explain(err))
	}
	t.asks(o)
	if a.byKey == nil {
		a.byKey = map[watchKey]*bridgedTask{}
	}
	a.byKey[key] = t
	a.order = append(a.order, t)
	return t, nil
}

// makeRoom makes room if those accepts as many tasks as most or more: the oldest accepted task that
// does not wait for the client is forgotten. The result is false if all of them wait. The caller
// holds a.mu.
func (a *bridgedTasks) makeRoom(most int, those func(*bridgedTask) bool) bool {
	n := 0
	var idle *bridgedTask
	for _, t := range a.order {
		if those(t) {
			n++
			if idle == nil && !t.waits() {
				idle = t
			}
		}
	}
	if n < most {
		return true
	}
	if idle != nil {
		a.drop(idle)
	}
	return idle != nil
}

// find returns a remembered task, nil for none.
func (a *bridgedTasks) find(key watchKey) *bridgedTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key]
}

// forget forgets an ended task.
func (a *bridgedTasks) forget(t *bridgedTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey[t.key] == t {
		a.drop(t)
	}
}

// drop is forget for a caller that holds a.mu. From now on, no client sees the questions of the
// task.
func (a *bridgedTasks) drop(t *bridgedTask) {
	t.mu.Lock()
	stop := t.stop
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
	t.kept.Close()
	delete(a.byKey, t.key)
	a.order = slices.DeleteFunc(a.order, func(other *bridgedTask) bool { return other == t })
}

// bridgedTask returns the task named by a message of the upstream, nil for none.
func (p Peer) bridgedTask(m wire.Inbound) *bridgedTask {
	id, ok := wire.GetString(m.Params, "_meta", relatedTask, "taskId")
	if !ok {
		return nil
	}
	return p.router.bridged.find(watchKey{p.conn, id})
}

// asks notes the client that asks for the task: the capabilities now declared decide which
// questions the client can be asked.
func (t *bridgedTask) asks(o Origin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o == Origin(o.Session()) && t.client != nil {
		return // a session does not know the capabilities of its clients
	}
	t.client, t.revision = o.Client(), o.Revision()
	if t.count() != nil {
		t.client = nil // so the client cannot be asked anything
	}
}

// count counts the memory kept by the task. The caller holds t.mu.
func (t *bridgedTask) count() error {
	n := bridgedMemory + len(t.client)
	for _, q := range t.questions {
		n += len(q.request)
	}
	return t.kept.Set(int64(n))
}

// waits reports whether the task waits for the client.
func (t *bridgedTask) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.questions) > 0
}

// Session implements Origin.
func (t *bridgedTask) Session() Session { return t.session }

// Revision implements Origin.
func (t *bridgedTask) Revision() protocol.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revision
}

// Client implements Origin.
func (t *bridgedTask) Client() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.client
}

// LogLevel implements Origin.
func (t *bridgedTask) LogLevel() string { return "" }

// Notify implements Origin. Tasks of the extension have no progress and no log messages.
func (t *bridgedTask) Notify(string, []byte) {}

// Standing returns Parked, so that a question of an upstream rather goes to any other request: a
// question for a task names the task.
func (t *bridgedTask) Standing() Standing { return Parked }

// Ask implements Origin. The client gets the question together with the task.
func (t *bridgedTask) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	q, err := t.question(call)
	if err != nil {
		return wire.Reply{}, err
	}
	late := time.NewTimer(taskWait)
	defer late.Stop()
	defer t.withdraw(q)
	select {
	case reply := <-q.answer:
		return reply, nil
	case <-ctx.Done():
		return wire.Reply{}, context.Cause(ctx)
	case <-late.C:
		return wire.Reply{}, fmt.Errorf("the client did not answer within %v", taskWait)
	}
}

// question adds a question.
func (t *bridgedTask) question(call wire.Call) (*taskQuestion, error) {
	if !askable[call.Method] {
		return nil, wire.Errorf(wire.CodeMethodNotFound, "method not found: a task cannot ask for %.64q", call.Method)
	}
	params := call.Params
	var err error
	if params != nil {
		params, err = withoutRelated(params)
	}
	var request []byte
	if err == nil {
		request, err = envelope.Question(call.Method, params)
	}
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.questions) >= maxQuestions {
		return nil, wire.Errorf(wire.CodeInternal, "%s: the task has more than %d questions open", call.Method, maxQuestions)
	}
	if err := t.kept.Add(len(request)); err != nil {
		return nil, wire.Errorf(wire.CodeInternal, "%s: the task cannot wait: %s", call.Method, limits.Explain(err))
	}
	t.asked++
	q := &taskQuestion{name: "q" + strconv.Itoa(t.asked), method: call.Method, request: request, answer: make(chan wire.Reply, 1)}
	t.questions = append(t.questions, q)
	t.changedLocked()
	return q, nil
}

// withdraw removes a question that is still open.
func (t *bridgedTask) withdraw(q *taskQuestion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.questions = slices.DeleteFunc(t.questions, func(other *taskQuestion) bool { return other == q })
	_ = t.count()
}

// answer passes answers on to the questions with the same names. Other answers are ignored
// (specification/draft/tasks.md, "Task Update Requests"). If an answer is malformed, none is passed
// on.
func (t *bridgedTask) answer(answers []wire.Member) (taken int, bad *wire.RPCError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	given := map[string][]byte{}
	for _, m := range answers {
		given[m.Name] = m.Value
	}
	for _, q := range t.questions {
		if value, ok := given[q.name]; ok {
			if why := envelope.CheckAnswer(q.method, value); why != "" {
				return 0, wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses.%s %s", protocol.MethodTasksUpdate, q.name, why)
			}
		}
	}
	t.questions = slices.DeleteFunc(t.questions, func(q *taskQuestion) bool {
		value, ok := given[q.name]
		if ok {
			q.answer <- wire.Reply{Result: value} // the channel has room for an answer
			taken++
		}
		return ok
	})
	_ = t.count()
	if taken > 0 {
		t.changedLocked()
	}
	return taken, nil
}

// open returns the questions without an answer, a raw object; nil for none. fresh is closed when
// the questions may have changed.
func (t *bridgedTask) open() (requests []byte, fresh <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.questions) == 0 {
		return nil, t.fresh
	}
	var all wire.Object
	for _, q := range t.questions {
		all.Raw(q.name, q.request)
	}
	return all.Bytes(), t.fresh
}

// changed notes that the upstream has announced a change of the task.
func (t *bridgedTask) changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changedLocked()
}

// changedLocked is changed for a caller that holds t.mu.
func (t *bridgedTask) changedLocked() {
	close(t.fresh)
	t.fresh = make(chan struct{})
}
