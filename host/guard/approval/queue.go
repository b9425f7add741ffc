package approval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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

// sweep removes expired entries, and returns all other entries, the oldest first. The caller is in
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
