package approval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// Remembered is a decision for later calls. The decision counts for a call only if the call has the
// same Subject.
type Remembered struct {
	ID       string    `json:"id"`
	Scope    Remember  `json:"scope"` // ForValue or ForShape
	Allow    bool      `json:"allow"`
	Subject  Subject   `json:"subject"`
	Question Question  `json:"question"` // about the call of the decision
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

func (r *Remembered) name() documents.Name {
	return documents.Name{Kind: documents.Remembered, ID: r.ID}
}

// covers reports whether the decision counts for a call.
func (r *Remembered) covers(s Subject) bool {
	bound := r.Subject
	if r.Scope == ForShape {
		bound.Arguments = s.Arguments
	}
	return bound == s
}

func (r *Remembered) verdict() Verdict { return Verdict{Allow: r.Allow, By: r.By, Note: r.Note} }

// remember keeps a decision that has no entry in the queue, and returns the decision's id.
func (q *Queue) remember(ctx context.Context, s Subject, question Question, v Verdict, how string, life time.Duration) (id string, err error) {
	err = q.place.Change(ctx, func(d documents.Documents) error {
		r, err := q.keep(d, newRemembered("", s, question, v, how, q.now(), life))
		id = r.ID
		return err
	})
	return id, err
}

// keep writes a decision, and removes expired and replaced decisions. A decision without an id, or
// with a used id, gets a new id. The caller is in Change.
func (q *Queue) keep(d documents.Documents, r Remembered) (Remembered, error) {
	before, err := all[Remembered](q, d, documents.Remembered)
	if err != nil {
		return r, err
	}
	now, left := q.now(), 0
	for i := range before {
		b := &before[i]
		if over(now, b.Created, b.Expires) || b.Scope == r.Scope && r.covers(b.Subject) {
			err = errors.Join(err, d.Remove(b.name()))
			continue
		}
		left++
		if b.ID == r.ID {
			r.ID = ""
		}
	}
	if left >= documents.Max {
		return r, fmt.Errorf("more than %d decisions are remembered (forget some: mcp-metatool approvals forget)", documents.Max)
	}
	if r.ID == "" {
		var failed error
		if r.ID, failed = newID(d); failed != nil {
			return r, errors.Join(err, failed)
		}
	}
	return r, errors.Join(err, d.Write(r.name(), r))
}

// counts returns the decision that counts for a call. A denial outweighs an allowance. If only the
// user of the queue may decide, the decisions of clients do not count: other processes with the
// same store may ask clients, and this process may have asked clients before a reload.
func counts(list []Remembered, s Subject, by By) (found Remembered, ok bool) {
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

// recall returns the decision that counts for a call.
func (q *Queue) recall(ctx context.Context, s Subject, by By) (found Remembered, ok bool) {
	list, err := q.Remembered(ctx)
	found, ok = counts(list, s, by)
	for err == nil && ok && found.Allow {
		if err = q.place.Fresh(ctx, found.name()); err != nil {
			break
		}
		// The decision may have been forgotten between the first look and the answer of Fresh.
		before := found.ID
		list, err = q.Remembered(ctx)
		if found, ok = counts(list, s, by); found.ID == before {
			break
		}
	}
	if err != nil {
		q.log.Warn("remembered approvals cannot be read, so they do not count", "err", err)
		return Remembered{}, false
	}
	return found, ok
}

// remembered returns the remembered decisions, unordered.
func (q *Queue) remembered(d documents.Documents) ([]Remembered, error) {
	list, err := all[Remembered](q, d, documents.Remembered)
	now := q.now()
	return slices.DeleteFunc(list, func(r Remembered) bool { return over(now, r.Created, r.Expires) }), err
}

// Remembered returns the remembered decisions, the oldest first.
func (q *Queue) Remembered(ctx context.Context) ([]Remembered, error) {
	var list []Remembered
	err := q.place.View(ctx, func(d documents.Documents) (err error) {
		list, err = q.remembered(d)
		return err
	})
	slices.SortFunc(list, func(a, b Remembered) int { return a.Created.Compare(b.Created) })
	return list, err
}

// Forget ends a remembered decision. The error is ErrUnknown for an unknown id.
func (q *Queue) Forget(ctx context.Context, id string) (r Remembered, err error) {
	if !isID(id) {
		return r, unknown(id)
	}
	err = q.place.Change(ctx, func(d documents.Documents) error {
		r = Remembered{ID: id}
		err := d.Read(r.name(), &r)
		if errors.Is(err, fs.ErrNotExist) {
			return unknown(id)
		}
		if err != nil {
			return err
		}
		return d.Remove(r.name())
	})
	return r, err
}

// KeepRules ends all decisions for rules that no longer exist. has reports whether a rule exists.
func (q *Queue) KeepRules(ctx context.Context, has func(rule string) bool) error {
	gone := func(r Remembered) bool { return !has(r.Subject.Rule) }
	if list, err := q.Remembered(ctx); err != nil || !slices.ContainsFunc(list, gone) {
		return err
	}
	return q.place.Change(ctx, func(d documents.Documents) error {
		list, err := all[Remembered](q, d, documents.Remembered)
		for i := range list {
			if gone(list[i]) {
				err = errors.Join(err, d.Remove(list[i].name()))
			}
		}
		return err
	})
}
