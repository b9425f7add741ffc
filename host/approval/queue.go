package approval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// maxOpen bounds the calls that wait in all processes together.
const maxOpen = 500

// poll is how often a call that waits looks whether somebody has decided. The queue is a
// folder that may be on any file system, and few calls wait, so that nothing more is needed.
const poll = 200 * time.Millisecond

// enter puts a call into the queue, or finds what was decided about the same call before:
// the Entry is open then, or says what was decided. What allows one call is used up by that.
// hold says that the call waits in this process.
func (q *Queue) enter(ctx context.Context, e Entry, hold bool, most int) (Entry, error) {
	err := q.change(ctx, func(f *files) error {
		entries, err := q.sweep(f)
		if err != nil {
			return err
		}
		if found := q.same(entries, e.Subject); found != nil {
			e = *found
			if e.State == Allowed {
				return f.remove(e.file())
			}
			if e.State == Open && hold {
				if e.Holder, err = q.held(); err == nil {
					err = f.write(e.file(), e)
				}
			}
			return err
		}
		if err := fits(entries, e.Asker, most); err != nil {
			return err
		}
		e.ID, e.State = f.newID(), Open
		if hold {
			if e.Holder, err = q.held(); err != nil {
				return err
			}
		}
		return f.write(e.file(), e)
	})
	return e, err
}

// same returns the entry about the same call for which no call waits; nil if there is none.
// A call that waits gets a decision of its own.
func (q *Queue) same(entries []Entry, s Subject) *Entry {
	for i := range entries {
		if entries[i].Subject == s && !q.isHeld(entries[i].Holder) {
			return &entries[i]
		}
	}
	return nil
}

// fits returns why there is no room for another call.
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
	case open >= maxOpen, len(entries) >= maxFiles:
		return fmt.Errorf("%w: %d of all clients, a fixed limit", ErrFull, open)
	}
	return nil
}

// sweep removes entries that have expired, and returns the others, the oldest first. The
// caller holds the lock of the folder.
func (q *Queue) sweep(f *files) ([]Entry, error) {
	entries, err := all[Entry](f, queueFolder, q.log)
	if err != nil {
		return nil, err
	}
	now := q.now()
	entries = slices.DeleteFunc(entries, func(e Entry) bool {
		return e.expired(now) && f.remove(e.file()) == nil
	})
	slices.SortFunc(entries, func(a, b Entry) int { return a.Created.Compare(b.Created) })
	q.sweepHolders(f)
	return entries, nil
}

// await waits until somebody has decided about an entry, and takes it out of the queue. The
// error is errExpired, ErrUnknown, or the cause of ctx.
func (q *Queue) await(ctx context.Context, id string) (Entry, error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		e, err := q.Find(ctx, id)
		switch {
		case ctx.Err() != nil:
			return Entry{}, context.Cause(ctx)
		case err == nil && e.State != Open:
			return q.take(ctx, id)
		case err == nil && e.expired(q.now()), errors.Is(err, ErrUnknown):
			return Entry{}, errExpired
		case err != nil:
			return Entry{}, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
	}
}

// take removes an entry and returns how it was last.
func (q *Queue) take(ctx context.Context, id string) (Entry, error) {
	var e Entry
	err := q.change(ctx, func(f *files) error {
		var err error
		if e, err = f.entry(id); err != nil {
			return err
		}
		return f.remove(e.file())
	})
	return e, err
}

// entry reads an entry. The error is ErrUnknown if there is none.
func (f *files) entry(id string) (e Entry, err error) {
	if !isID(id) {
		return e, fmt.Errorf("%s: %w", quote(id, maxName), ErrUnknown)
	}
	err = f.read(filepath.Join(queueFolder, id+suffix), &e)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	return e, err
}

// Find returns an entry of the queue. The error is ErrUnknown if there is none.
func (q *Queue) Find(ctx context.Context, id string) (Entry, error) {
	f, err := q.open(ctx)
	switch {
	case err != nil:
		return Entry{}, err
	case f == nil:
		return Entry{}, fmt.Errorf("%s: %w", quote(id, maxName), ErrUnknown)
	}
	defer f.root.Close()
	e, err := f.entry(id)
	if err == nil && e.State != Open && e.expired(q.now()) {
		err = fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	return e, err
}

// Listed is an Entry with what only this moment says.
type Listed struct {
	Entry
	Waits bool `json:"waits"` // its call waits for the decision right now
}

// List returns the queue, the oldest entry first.
func (q *Queue) List(ctx context.Context) ([]Listed, error) {
	f, err := q.open(ctx)
	if err != nil || f == nil {
		return nil, err
	}
	defer f.root.Close()
	entries, err := all[Entry](f, queueFolder, q.log)
	var list []Listed
	for _, e := range entries {
		if !e.expired(q.now()) {
			list = append(list, Listed{e, e.State == Open && q.isHeld(e.Holder)})
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return a.Created.Compare(b.Created) })
	return list, err
}
