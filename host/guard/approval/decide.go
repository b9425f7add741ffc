package approval

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// Decide decides about an open entry of the queue. A decision for later calls is remembered for the
// given time, if the time is positive. The error is ErrUnknown, or a *DecidedError if another
// person was faster.
func (q *Queue) Decide(ctx context.Context, id string, v Verdict, how string, remember time.Duration) (Entry, error) {
	var e Entry
	now := q.now()
	if remember <= 0 {
		v.Remember = Once
	}
	err := q.place.Change(ctx, func(d documents.Documents) error {
		_, err := q.sweep(d)
		if err != nil {
			return err
		}
		if e, err = entryOf(d, id); err != nil {
			return err
		}
		if e.State != Open {
			return &DecidedError{e}
		}
		lifetime := e.Expires.Sub(e.Created)
		if e.State = Denied; v.Allow {
			e.State = Allowed
		}
		e.Decided = &Decided{By: v.By, How: how, At: now, Note: v.Note, Remember: v.Remember}
		e.Expires = now.Add(lifetime) // the caller has as long to make the call again
		return d.Write(e.name(), e)
	})
	if err != nil || v.Remember == Once {
		return e, err
	}
	return e, q.place.Change(ctx, func(d documents.Documents) error {
		r := newRemembered(id, e.Subject, e.Question, v, how, now, remember)
		entries, err := q.sweep(d)
		if err == nil {
			r, err = q.keep(d, r)
		}
		if err != nil {
			return err
		}
		return q.settle(d, entries, r)
	})
}

// settle decides about the other open entries to which a remembered decision applies. The caller is
// in Change.
func (q *Queue) settle(d documents.Documents, entries []Entry, r Remembered) error {
	for _, e := range entries {
		if e.ID == r.ID || e.State != Open || !r.covers(e.Subject) {
			continue
		}
		lifetime := e.Expires.Sub(e.Created)
		if e.State = Denied; r.Allow {
			e.State = Allowed
		}
		e.Decided = &Decided{By: r.By, How: HowRemembered, At: q.now(), Note: r.Note}
		e.Expires = q.now().Add(lifetime)
		if err := d.Write(e.name(), e); err != nil {
			return err
		}
	}
	return nil
}
