package compose

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// gatherTime is how long a run waits for further questions, once nothing in the run can go on
// without answers of the client.
const gatherTime = 20 * time.Millisecond

// guessTime is the same if the waiting calls are not known for sure: a call with two questions
// looks like two waiting calls.
const guessTime = 250 * time.Millisecond

// maxQuestions bounds the open questions of a tree of runs.
const maxQuestions = 64

// questions are the questions of servers during the calls of a tree of runs. They are nil if the
// client can be asked at any time.
type questions struct {
	ctx  context.Context // of the tree
	stop context.CancelCauseFunc

	mu    sync.Mutex
	known []*knownAnswer    // of the client, to questions of the runs before
	busy  int               // goroutines of the tree that wait neither for an upstream nor for each other
	calls map[*inquirer]int // calls in flight, with the number of questions surely asked by the call
	open  []*question       // in the order in which they were asked
	asked int               // questions so far, for their names
	timer *time.Timer       // runs when everything waits; nil if the tree never waited
	over  bool              // no more questions and calls come
}

// questionName begins the name of each question; a number follows.
const questionName = "question"

// question is a question without an answer.
type question struct {
	name   string // in the result
	by     *inquirer
	own    bool // we ask, for an approval
	unsure bool // the question may belong to another call of the server
	method string
	params []byte
	// other reports that the call did not ask this question when the call was made before.
	other bool
}

// asking returns the context of a tree of runs for a client. The context ends when the client has
// to be asked. The caller calls end after the tree.
func (t *tree) asking(ctx context.Context, b beginning) (_ context.Context, end func()) {
	if t.stage != nil || !asksInResult(b.call.Origin) {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t.questions = &questions{ctx: ctx, stop: cancel, busy: 1, calls: map[*inquirer]int{}, known: b.before.knownAnswers()}
	return ctx, func() { cancel(context.Canceled) }
}

// work notes that more goroutines of the tree have work, or, if more is negative, that some of them
// wait for others or end. A run whose calls are about to begin does not end to ask the question of
// the first call.
func (q *questions) work(more int) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy += more
	q.settle()
}

// begin notes a call that begins. The result is false if calls can no longer begin: the call would
// end at once, but the server might already act.
func (q *questions) begin(i *inquirer) bool {
	if q == nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return false
	}
	q.calls[i] = 0
	q.busy-- // the call's goroutine waits for the upstream
	q.settle()
	return true
}

// end notes that a call has ended. The answers to the call's questions are no longer needed.
func (q *questions) end(i *inquirer) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.calls, i)
	q.busy++
	alone := true // no other call of the server is in flight
	for other := range q.calls {
		alone = alone && other.server != i.server
	}
	q.remove(func(o *question) bool { return o.by == i && !o.unsure || alone && o.by.server == i.server })
}

// remove removes questions, unless the client gets them. The caller holds q.mu.
func (q *questions) remove(which func(*question) bool) {
	if q.over {
		return
	}
	for _, o := range q.open {
		if _, flies := q.calls[o.by]; flies && !o.unsure && which(o) {
			q.calls[o.by]--
		}
	}
	q.open = slices.DeleteFunc(q.open, which)
	q.settle()
}

// drop removes a question.
func (q *questions) drop(o *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(func(other *question) bool { return other == o })
}

// ask adds a question and names the question. The error is the reason why the question cannot be
// asked. save puts the question into the journal, while q.mu is held: the client must not answer a
// question that is not in the journal, and the journal must not have a question that the client is
// not asked because the run has just ended.
func (q *questions) ask(o *question, save func(name string)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch _, flies := q.calls[o.by]; {
	case q.over:
		return errAsks
	case !flies:
		return wire.ErrClosed
	case len(q.open) >= maxQuestions:
		return fmt.Errorf("one run has more than %d questions open", maxQuestions)
	}
	q.asked++
	o.name = questionName + strconv.Itoa(q.asked)
	save(o.name)
	if !o.unsure {
		q.calls[o.by]++
	}
	o.other = !q.expected(o)
	q.open = append(q.open, o)
	q.settle()
	return nil
}

// settled reports whether nothing can go on without answers of the client, and whether the answer
// is sure. The caller holds q.mu.
func (q *questions) settled() (settled, sure bool) {
	if q.over || len(q.open) == 0 || q.busy > 0 {
		return false, false
	}
	going := map[string]int{} // by server: the calls that may not be waiting
	sure = true
	for i, own := range q.calls {
		if own == 0 {
			going[i.server]++
			sure = false
		}
	}
	for _, o := range q.open {
		if o.unsure {
			going[o.by.server]--
		}
	}
	for _, n := range going {
		if n > 0 {
			return false, false
		}
	}
	return true, sure
}

// settle starts the timer that ends the tree, if nothing can go on. The caller holds q.mu.
func (q *questions) settle() {
	settled, sure := q.settled()
	wait := gatherTime
	if !sure {
		wait = guessTime
	}
	switch {
	case !settled:
	case q.timer == nil:
		q.timer = time.AfterFunc(wait, q.stopIfSettled)
	default:
		q.timer.Reset(wait)
	}
}

func (q *questions) stopIfSettled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if settled, _ := q.settled(); !settled {
		return
	}
	q.over = true
	if bad := q.unfit(); bad != nil {
		q.stop(bad)
		return
	}
	q.saveUnused()
	q.stop(errAsks)
}

// close stops the timer and returns the questions.
func (q *questions) close() []*question {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	if q.timer != nil {
		q.timer.Stop()
	}
	return q.open
}
