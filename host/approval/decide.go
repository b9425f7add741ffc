package approval

import (
	"context"
	"time"
)

// Decide decides about an open entry of the queue. A decision that is remembered is so for
// the given time, if it is positive. The error is ErrUnknown, or a *DecidedError if somebody
// was faster.
func (q *Queue) Decide(ctx context.Context, id string, v Verdict, how string, remember time.Duration) (Entry, error) {
	var e Entry
	err := q.change(ctx, func(f *files) error {
		entries, err := q.sweep(f)
		if err != nil {
			return err
		}
		if e, err = f.entry(id); err != nil {
			return err
		}
		if e.State != Open {
			return &DecidedError{e}
		}
		now := q.now()
		lifetime := e.Expires.Sub(e.Created)
		if e.State = Denied; v.Allow {
			e.State = Allowed
		}
		if remember <= 0 {
			v.Remember = Once
		}
		e.Decided = &Decided{By: v.By, How: how, At: now, Note: v.Note, Remember: v.Remember}
		e.Expires = now.Add(lifetime) // the caller has as long to make the call again
		if err := f.write(e.file(), e); err != nil {
			return err
		}
		if v.Remember == Once {
			return nil
		}
		r := newRemembered(id, e.Subject, e.Question, v, how, now, remember)
		if err := q.keep(f, r); err != nil {
			return err
		}
		return q.settle(f, entries, r)
	})
	return e, err
}

// settle decides about the other open entries to which a remembered decision applies. The
// caller holds the lock of the folder.
func (q *Queue) settle(f *files, entries []Entry, r Remembered) error {
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
		if err := f.write(e.file(), e); err != nil {
			return err
		}
	}
	return nil
}
