package approval

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// Remembered is a decision for later calls. Only those count for which everything is the same
// that it is bound to.
type Remembered struct {
	ID       string    `json:"id"`
	Scope    Remember  `json:"scope"` // ForValue or ForShape
	Allow    bool      `json:"allow"`
	Subject  Subject   `json:"subject"`
	Question Question  `json:"question"` // of the call that was decided about
	By       string    `json:"by"`
	How      string    `json:"how"`
	Note     string    `json:"note,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
}

func newRemembered(id string, s Subject, q Question, v Verdict, how string, now time.Time, life time.Duration) Remembered {
	return Remembered{
		ID: id, Scope: v.Remember, Allow: v.Allow, Subject: s, Question: q, By: v.By, How: how, Note: v.Note,
		Created: now, Expires: now.Add(life),
	}
}

func (r *Remembered) file() string { return filepath.Join(rememberedFolder, r.ID+suffix) }

// covers reports whether the decision counts for a call.
func (r *Remembered) covers(s Subject) bool {
	bound := r.Subject
	if r.Scope == ForShape {
		bound.Arguments = s.Arguments
	}
	return bound == s
}

func (r *Remembered) verdict() Verdict { return Verdict{Allow: r.Allow, By: r.By, Note: r.Note} }

// remember keeps a decision that no entry of the queue has, and returns its id.
func (q *Queue) remember(ctx context.Context, s Subject, question Question, v Verdict, how string, life time.Duration) (id string, err error) {
	err = q.change(ctx, func(f *files) error {
		id = f.newID()
		return q.keep(f, newRemembered(id, s, question, v, how, q.now(), life))
	})
	return id, err
}

// keep writes a decision, and removes those that it replaces or that have expired. The
// caller holds the lock of the folder.
func (q *Queue) keep(f *files, r Remembered) error {
	before, err := all[Remembered](f, rememberedFolder, q.log)
	if err != nil {
		return err
	}
	now, left := q.now(), 0
	for i := range before {
		b := &before[i]
		if over(now, b.Created, b.Expires) || b.Scope == r.Scope && r.covers(b.Subject) {
			err = errors.Join(err, f.remove(b.file()))
		} else {
			left++
		}
	}
	if left >= maxFiles {
		return fmt.Errorf("more than %d decisions are remembered (forget some: mcp-metatool approvals forget)", maxFiles)
	}
	return errors.Join(err, f.write(r.file(), r))
}

// recall returns the decision that counts for a call. Of several, one that denies counts. If
// only the user of the queue may decide, what clients have decided does not count: other
// processes with the same store may ask them, and this one may have done so before a reload.
func (q *Queue) recall(s Subject, by By) (found Remembered, ok bool) {
	list, err := q.Remembered(context.Background())
	if err != nil {
		q.log.Warn("remembered approvals cannot be read, so they do not count", "err", err)
		return found, false
	}
	for _, r := range list {
		if by == ByQueue && r.How == HowClient {
			continue
		}
		if r.covers(s) && (!ok || !r.Allow) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Remembered returns the decisions that are remembered, the oldest first.
func (q *Queue) Remembered(ctx context.Context) ([]Remembered, error) {
	f, err := q.open(ctx)
	if err != nil || f == nil {
		return nil, err
	}
	defer f.root.Close()
	list, err := all[Remembered](f, rememberedFolder, q.log)
	now := q.now()
	list = slices.DeleteFunc(list, func(r Remembered) bool { return over(now, r.Created, r.Expires) })
	slices.SortFunc(list, func(a, b Remembered) int { return a.Created.Compare(b.Created) })
	return list, err
}

// Forget ends a decision that is remembered. The error is ErrUnknown if there is none with
// that id.
func (q *Queue) Forget(ctx context.Context, id string) (Remembered, error) {
	var r Remembered
	if !isID(id) {
		return r, fmt.Errorf("%s: %w", quote(id, maxName), ErrUnknown)
	}
	err := q.change(ctx, func(f *files) error {
		list, err := all[Remembered](f, rememberedFolder, q.log)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].ID == id {
				r = list[i]
				return f.remove(r.file())
			}
		}
		return fmt.Errorf("%s: %w", id, ErrUnknown)
	})
	return r, err
}

// KeepRules ends all decisions for rules that there are no more. has reports whether there is
// a rule with that name.
func (q *Queue) KeepRules(ctx context.Context, has func(rule string) bool) error {
	gone := func(r Remembered) bool { return !has(r.Subject.Rule) }
	if list, err := q.Remembered(ctx); err != nil || !slices.ContainsFunc(list, gone) {
		return err
	}
	return q.change(ctx, func(f *files) error {
		list, err := all[Remembered](f, rememberedFolder, q.log)
		for i := range list {
			if gone(list[i]) {
				err = errors.Join(err, f.remove(list[i].file()))
			}
		}
		return err
	})
}
