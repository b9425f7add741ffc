package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// maxOpen bounds the calls that wait in all processes together.
const maxOpen = 500

// enter puts a call into the queue, or finds an earlier decision about the same call: the Entry is
// open, or has the decision. An allowed entry is used up. With the setting hold, the call waits in
// this process. If a decision was remembered after the call was made, enter returns the decision as
// before.
func (q *Queue) enter(ctx context.Context, call Entry, s Settings) (e Entry, before *Remembered, err error) {
	hold := s.Wait != Answer
	err = q.place.Change(ctx, func(d documents.Documents) (err error) {
		e, before = call, nil
		entries, err := q.sweep(d)
		if err != nil {
			return err
		}
		list, err := q.remembered(d)
		if err != nil {
			return err
		}
		if r, ok := counts(list, e.Subject, s.By); ok {
			before = &r
			return nil
		}
		found := q.same(entries, e.Subject)
		switch {
		case found != nil && found.State == Allowed:
			e = *found
			return d.Use(e.name())
		case found != nil:
			if e = *found; e.State == Denied || !hold {
				return nil
			}
		default:
			if err := fits(entries, e.Asker, s.MaxWaiting); err != nil {
				return err
			}
			if e.ID, err = newID(d); err != nil {
				return err
			}
			e.State = Open
		}
		if hold {
			if e.Holder, err = q.place.Holder(); err != nil {
				return err
			}
		}
		return d.Write(e.name(), e)
	})
	return e, before, err
}

// same returns an entry about the same call for which no call waits, preferably a decided entry;
// nil if none exists. A call that waits gets its own decision.
func (q *Queue) same(entries []Entry, s Subject) (found *Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Subject == s && !q.place.Holds(e.Holder) && (found == nil || found.State == Open) {
			found = e
		}
	}
	return found
}

// fits returns why the queue has no room for another call; nil if it has.
func fits(entries []Entry, asker string, most int) error {
	own, open := 0, 0
	for i := range entries {
		if entries[i].State == Open {
			open++
			if entries[i].Asker == asker {
				own++
			}
		}
	}
	switch {
	case own >= most:
		return fmt.Errorf("%w: %d of this client (max_waiting in [approval])", ErrFull, own)
	case open >= maxOpen, len(entries) >= documents.Max:
		return fmt.Errorf("%w: %d of all clients, a fixed limit", ErrFull, open)
	}
	return nil
}

// sweep removes expired entries, and returns all other entries, the oldest first. To be called from
// Change.
func (q *Queue) sweep(d documents.Documents) ([]Entry, error) {
	entries, err := all[Entry](q, d, documents.Queue)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool {
		return q.expired(&e) && d.Remove(e.name()) == nil
	})
	slices.SortFunc(entries, func(a, b Entry) int { return a.Created.Compare(b.Created) })
	return entries, nil
}

// Sweep removes expired entries, and entries whose calls waited in a process that has ended.
func (q *Queue) Sweep(ctx context.Context) error {
	var over bool
	err := q.place.View(ctx, func(d documents.Documents) error {
		entries, err := all[Entry](q, d, documents.Queue)
		over = slices.ContainsFunc(entries, func(e Entry) bool { return q.expired(&e) })
		return err
	})
	if err != nil || !over {
		return err
	}
	return q.place.Change(ctx, func(d documents.Documents) error {
		_, err := q.sweep(d)
		return err
	})
}

// await waits for the decision about an entry, and takes the entry out of the queue. The error is
// errDropped, or the cause of ctx, which ends when the entry expires: the clock may jump.
func (q *Queue) await(ctx context.Context, id string) (Entry, error) {
	for {
		changed := q.place.Changed() // before the first look
		e, fresh, err := q.look(ctx, id)
		switch {
		case ctx.Err() != nil:
			return Entry{}, context.Cause(ctx)
		case errors.Is(err, ErrUnknown):
			if fresh == nil {
				return Entry{}, errDropped
			}
		case err == nil && e.State != Open:
			if _, err = q.take(ctx, id); errors.Is(err, ErrUnknown) {
				err = errDropped
			}
			return e, err
		case err != nil:
			return Entry{}, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
	}
}

// take removes an entry and returns its last state. Of several callers with the same entry, only
// the first succeeds.
func (q *Queue) take(ctx context.Context, id string) (e Entry, err error) {
	err = q.place.Change(ctx, func(d documents.Documents) (err error) {
		if e, err = entryOf(d, id); err != nil {
			return err
		}
		return d.Use(e.name())
	})
	return e, err
}

// entryOf reads an entry. The error is ErrUnknown for an unknown id.
func entryOf(d documents.Documents, id string) (e Entry, err error) {
	if !isID(id) {
		return e, unknown(id)
	}
	err = d.Read(documents.Name{Kind: documents.Queue, ID: id}, &e)
	if errors.Is(err, fs.ErrNotExist) {
		err = unknown(id)
	}
	return e, err
}

// read reads an entry, which may have expired.
func (q *Queue) read(ctx context.Context, id string) (e Entry, err error) {
	err = q.place.View(ctx, func(d documents.Documents) (err error) {
		e, err = entryOf(d, id)
		return err
	})
	return e, err
}

// look is read. If the error is ErrUnknown and fresh is nil, no entry existed after the call of
// look; otherwise fresh says why the absence is not certain. An entry can arrive between the first
// read and the answer of Fresh, so look reads twice.
func (q *Queue) look(ctx context.Context, id string) (e Entry, fresh, err error) {
	if e, err = q.read(ctx, id); !errors.Is(err, ErrUnknown) {
		return e, nil, err
	}
	if fresh = q.place.Fresh(ctx, documents.Name{Kind: documents.Queue, ID: id}); fresh == nil {
		e, err = q.read(ctx, id)
	}
	return e, fresh, err
}

// Find returns an entry of the queue. The error is ErrUnknown for an unknown id.
func (q *Queue) Find(ctx context.Context, id string) (Entry, error) {
	changed := q.place.Changed()
	e, fresh, err := q.look(ctx, id)
	for errors.Is(err, ErrUnknown) && errors.Is(fresh, documents.ErrChanged) {
		select {
		case <-changed:
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
		changed = q.place.Changed()
		e, fresh, err = q.look(ctx, id)
	}
	if err == nil && e.State != Open && q.expired(&e) {
		err = unknown(id)
	}
	return e, err
}

// Listed is an Entry with its state at this moment.
type Listed struct {
	Entry
	Waits bool `json:"waits"` // the call waits for the decision right now
}

// List returns the queue, the oldest entry first.
func (q *Queue) List(ctx context.Context) ([]Listed, error) {
	var list []Listed
	err := q.place.View(ctx, func(d documents.Documents) error {
		entries, err := all[Entry](q, d, documents.Queue)
		for _, e := range entries {
			if !q.expired(&e) {
				list = append(list, Listed{e, e.State == Open && q.place.Holds(e.Holder)})
			}
		}
		return err
	})
	slices.SortFunc(list, func(a, b Listed) int { return a.Created.Compare(b.Created) })
	return list, err
}

// State is how far an Entry is.
type State string

// The states of an Entry. A used entry is removed, and so is the entry of a cancelled call.
const (
	Open    State = "open"
	Allowed State = "allowed" // the call may be made once
	Denied  State = "denied"
)

// Entry is a call in the queue.
type Entry struct {
	ID       string    `json:"id"`
	State    State     `json:"state"`
	Subject  Subject   `json:"subject"`
	Question Question  `json:"question"`
	Asker    string    `json:"asker"` // of whom MaxWaiting is
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"` // from then on the entry does not count
	// Holder is the process in which the call waits; "" if the call was answered.
	Holder  string   `json:"holder,omitempty"`
	Decided *Decided `json:"decided,omitempty"` // nil while the entry is open
}

// Decided is the decision of a person about an Entry.
type Decided struct {
	By       string    `json:"by"`
	How      string    `json:"how"` // HowQueue or HowPage
	At       time.Time `json:"at"`
	Note     string    `json:"note,omitempty"`
	Remember Remember  `json:"remember,omitempty"`
}

// verdict returns the decision.
func (e *Entry) verdict() Verdict {
	return Verdict{Allow: e.State == Allowed, By: e.Decided.By, Note: e.Decided.Note}
}

func (e *Entry) name() documents.Name { return documents.Name{Kind: documents.Queue, ID: e.ID} }

// expired reports whether an entry no longer counts. While a call waits in a process, only that
// process judges how long, also until the process takes the decision: the process and the person
// who decides may have the clocks of different machines.
func (q *Queue) expired(e *Entry) bool {
	if e.Holder != "" {
		if e.State == Open && q.place.Abandoned(e.Holder) {
			return true
		}
		if q.place.Holds(e.Holder) {
			return false
		}
	}
	return over(q.now(), e.Created, e.Expires)
}

// maxClockStep is by how much the clock may be set back without ending approvals.
const maxClockStep = time.Minute

// over reports whether an object with these times no longer counts. A clock that was set back does
// not prolong the object's life.
func over(now, created, expires time.Time) bool {
	return !now.Before(expires) || created.Sub(now) > maxClockStep
}

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

// settle decides about the other open entries to which a remembered decision applies. To be called
// from Change.
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

// Queue has the calls that wait for a decision, and the remembered decisions. All processes with
// the same Place share a queue. Concurrent use is safe.
type Queue struct {
	place documents.Place
	log   *slog.Logger
	now   func() time.Time
}

// OpenQueue returns the queue in the folder of a store, without touching a file. The caller must
// Close the queue.
func OpenQueue(store string, log *slog.Logger) *Queue {
	return NewQueue(documents.InFolder(store), log)
}

// NewQueue returns the queue in a Place, and owns the Place. The caller must Close the queue.
func NewQueue(in documents.Place, log *slog.Logger) *Queue {
	return &Queue{place: in, log: log, now: time.Now}
}

// Close declares: no call waits in this process any longer.
func (q *Queue) Close() { q.place.Close() }

// keys returns the keys, which are made with the first call.
func (q *Queue) keys(ctx context.Context) (*keys, error) {
	secret, err := q.place.Secret(ctx)
	if err != nil {
		return nil, err
	}
	return newKeys(secret), nil
}

// all returns the documents of a kind. Unreadable documents are logged and left out.
func all[T any](q *Queue, d documents.Documents, kind string) ([]T, error) {
	ids, err := d.IDs(kind)
	var list []T
	for _, id := range ids {
		if !isID(id) {
			continue
		}
		var v T
		if err := d.Read(documents.Name{Kind: kind, ID: id}, &v); err == nil {
			list = append(list, v)
		} else if !errors.Is(err, fs.ErrNotExist) {
			q.log.Warn("an approval is ignored", "err", err)
		}
	}
	return list, err
}

// letters are the characters of ids: people type ids, so no two letters look alike or make words.
const letters = "23456789bcdfghjkmnpqrstvwxz"

// idLength is the length of an id.
const idLength = 5

// newID returns an id without a document.
func newID(d documents.Documents) (string, error) {
	taken := map[string]bool{}
	for _, kind := range []string{documents.Queue, documents.Remembered} {
		ids, err := d.IDs(kind)
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			taken[id] = true
		}
	}
	for {
		var random [idLength]byte
		_, _ = rand.Read(random[:]) // never fails
		for i, b := range random {
			random[i] = letters[int(b)%len(letters)] // security does not depend on ids being hard to guess
		}
		if id := string(random[:]); !taken[id] {
			return id, nil
		}
	}
}

// isID reports whether text has the form of an id, and so is no path.
func isID(text string) bool {
	return len(text) == idLength && strings.Trim(text, letters) == ""
}

// unknown returns the error for an id without an approval.
func unknown(id string) error {
	if !isID(id) {
		id = quote(id, maxName)
	}
	return fmt.Errorf("%s: %w", id, ErrUnknown)
}

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
// with a used id, gets a new id. To be called from Change.
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
