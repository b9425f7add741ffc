package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// maxAll bounds the calls that wait in this process for any person.
const maxAll = 1000

// asker returns the caller to whom MaxWaiting applies: the client's credentials, or else its
// session.
func asker(c policy.Caller) string { return cmp.Or(c.Principal, c.Session) }

// enter counts a waiting call. leave ends the count.
func (a *Approver) enter(ask route.Asking, s Settings) (leave func(), err error) {
	who := asker(ask.Request.Caller)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.waiting[who] >= s.MaxWaiting:
		return nil, fmt.Errorf("%w: %d of this client (max_waiting in [approval])", ErrFull, a.waiting[who])
	case a.all >= maxAll:
		return nil, fmt.Errorf("%w: %d of all clients, a fixed limit", ErrFull, a.all)
	}
	a.waiting[who]++
	a.all++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all--
		if a.waiting[who]--; a.waiting[who] == 0 {
			delete(a.waiting, who)
		}
	}, nil
}

// enqueue asks through the queue.
func (a *Approver) enqueue(ctx context.Context, ask route.Asking, subject Subject, q Question, s Settings, made policy.Approval) (policy.Approval, error) {
	queue, hold := a.opts.Queue, s.Wait != Answer
	now := queue.now()
	e, before, err := queue.enter(ctx, Entry{
		Subject: subject, Question: q, Asker: asker(ask.Request.Caller), Created: now, Expires: now.Add(s.Timeout),
	}, s)
	made.ID, made.How = e.ID, HowQueue
	switch {
	case err == nil && before != nil:
		err := before.decides(ask, &made)
		return made, err
	case err != nil:
		made.How = HowUnanswered
		return made, a.unasked(ctx, ask, err)
	case e.State != Open: // a person has decided about the same call before
		decidedBy(&made, e)
		return made, e.verdict().error(ask, made.How)
	case !hold:
		return made, &WaitingError{ID: e.ID, Target: ask.Request.Target(), Rule: ask.Decision.Rule}
	}
	stop := a.report(ctx, ask, e.ID)
	defer stop()
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, errExpired) // whatever becomes of the clock
	defer cancel()
	done, err := queue.await(limited, e.ID)
	if err == nil {
		decidedBy(&made, done)
		return made, done.verdict().error(ask, made.How)
	}
	made.How = HowUnanswered
	if _, failed := queue.take(context.WithoutCancel(ctx), e.ID); failed != nil && !errors.Is(failed, ErrUnknown) {
		a.opts.Log.Warn("a call that does not wait any more is still in the queue", "approval", e.ID, "err", failed)
	}
	if errors.Is(err, errExpired) {
		err = fmt.Errorf("nobody has decided about approval %s within %v", e.ID, s.Timeout)
	}
	return made, a.unasked(ctx, ask, err)
}

// decidedBy copies the decision about an entry for the journal.
func decidedBy(made *policy.Approval, e Entry) {
	made.By, made.How, made.At, made.Note = e.Decided.By, e.Decided.How, e.Decided.At, e.Decided.Note
}

// reportEvery is the time between two progress messages to the caller of a waiting call: short
// enough for clients that give up after half a minute without progress.
const reportEvery = 10 * time.Second

// report sends progress while a call waits. stop ends the progress, and waits for the end.
func (a *Approver) report(ctx context.Context, ask route.Asking, id string) (stop func()) {
	if ask.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	message := fmt.Sprintf("waiting for approval %s of %s", id, quote(ask.Request.Target(), maxTarget))
	go func() {
		defer close(done)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			ask.Progress(message)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
