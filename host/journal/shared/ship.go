package shared

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Bounds on concurrent shipping.
const (
	maxTaken = 256     // runs and calls
	maxBytes = 8 << 20 // of them
	parallel = 16      // records written at the same time
)

// The interval between looks at the files without an ended run, the interval between writes of the
// state during work, and the pause before a new attempt.
const (
	lookEvery  = time.Second
	stateEvery = time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
	appendTime = 30 * time.Second // the store itself tries again meanwhile
	clearTime  = 5 * time.Second
)

// Ship begins to ship ended runs and calls of the folder, including runs and calls that ended
// earlier. Of several processes with the same folder, one ships.
func (j *Journal) Ship() {
	j.working.Go(func() {
		if unlock := j.lock(); unlock != nil {
			j.run()
			unlock()
		}
	})
}

// lock waits until no other process ships. lock returns nil if the Journal is closed first.
func (j *Journal) lock() (unlock func()) {
	said := false
	for {
		err := os.MkdirAll(j.stateDir(), 0o700)
		lock := regular.NewLock(filepath.Join(j.stateDir(), "ship.lock"))
		if err == nil {
			var ok bool
			if ok, err = lock.TryLock(); ok {
				return func() { _ = lock.Close() }
			}
		}
		_ = lock.Close()
		if !said {
			said = true
			j.opts.Log.Info("the journal is not shipped to the store of the fleet by this process: another process ships, or the folder cannot be written to", "dir", j.opts.Dir, "err", err)
		}
		select {
		case <-j.closing:
			return nil
		case <-time.After(j.opts.every):
		}
	}
}

// shipper is the work of the shipping process.
type shipper struct {
	*Journal
	tail    *journal.Tail
	state   state
	written time.Time                 // when the state was written
	days    map[string]bool           // days with an existing document
	ends    map[string]store.Position // of the logs of days
	cleared string                    // the day when old documents were removed
}

// run ships until the Journal is closed and nothing waits, or cannot be shipped soon.
func (j *Journal) run() {
	first, err := j.openState()
	if err != nil {
		if j.ctx.Err() == nil {
			j.opts.Log.Error("the journal is not shipped to the store of the fleet", "dir", j.opts.Dir, "err", err)
		}
		return
	}
	s := &shipper{Journal: j, state: first, tail: journal.NewTail(j.opts.Dir, first.Marks), days: map[string]bool{}, ends: map[string]store.Position{}}
	j.mu.Lock()
	j.ours, j.folder = true, first.Folder
	j.mu.Unlock()
	s.set(first.Marks)
	defer s.save()
	ticker := time.NewTicker(j.opts.every)
	defer ticker.Stop()
	for last := false; ; {
		if err := s.look(); err != nil {
			return
		}
		if last {
			return
		}
		select {
		case <-j.wake:
		case <-ticker.C:
		case <-j.closing:
			last = true
		}
	}
}

// look ships all ended runs and calls. The error is the cause of the Journal's end.
func (s *shipper) look() error {
	for {
		n, err := s.tail.Look(s.ctx, s.opts.Now(), s.fault)
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if err != nil {
			s.fault(err)
			return nil
		}
		for n > 0 {
			s.setLag()
			all := s.tail.Take(maxTaken, maxBytes, s.fault)
			if err := s.ship(all); err != nil {
				return err
			}
			s.set(s.tail.Done(all))
			n, _ = s.tail.Waiting()
		}
		s.setLag()
		s.clear()
		select {
		case <-s.wake: // something has ended in the meantime
		default:
			s.set(s.tail.Done(nil))
			return nil
		}
	}
}

func (s *shipper) fault(err error) {
	s.opts.Log.Warn("something in the journal is not shipped to the store of the fleet", "dir", s.opts.Dir, "err", err)
}

func (s *shipper) setLag() {
	n, _ := s.tail.Waiting()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag.Waiting, s.lag.Lost = n, s.tail.Lost()
	switch {
	case n == 0:
		s.lag.Since = time.Time{}
	case s.lag.Since.IsZero():
		s.lag.Since = s.opts.Now()
	}
}

// set notes how far the files were shipped.
func (s *shipper) set(marks journal.Marks) {
	s.mu.Lock()
	same := len(marks) == len(s.marks)
	for name, at := range marks {
		same = same && s.marks[name] == at
	}
	if !same {
		s.marks = marks
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	s.state.Marks = marks
	if !same && s.opts.Now().Sub(s.written) >= stateEvery {
		s.save()
	}
}

// save writes the shipped position of the files. Data shipped after this position is shipped again
// after a restart, which changes nothing.
func (s *shipper) save() {
	s.written = s.opts.Now()
	if err := writeJSON(s.statePath(), s.state); err != nil {
		s.opts.Log.Warn("the position up to which the journal was shipped cannot be written", "file", s.statePath(), "err", err)
	}
}

// ship writes ended runs and calls to the store, for as long as necessary. The error is the cause
// of the Journal's end.
func (s *shipper) ship(all []journal.Ended) error {
	group, ctx := errgroup.WithContext(s.ctx)
	group.SetLimit(parallel)
	for i := range all {
		if e := &all[i]; e.Runs != nil {
			group.Go(func() error { return s.record(ctx, e) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	lines := map[string]*bytes.Buffer{}
	var order []string
	for i := range all {
		e := &all[i]
		day := dayOf(e.ID, s.opts.Now())
		if lines[day] == nil {
			lines[day] = &bytes.Buffer{}
			order = append(order, day)
		}
		line := e.Call
		if e.Runs != nil {
			line = endedLine(e.ID)
			if err := s.chain(s.ctx, e); err != nil {
				return err
			}
		}
		lines[day].Write(line)
		lines[day].WriteByte('\n')
	}
	for _, day := range order {
		if err := s.day(day, lines[day].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// dayOf returns the day on which the run or call with the given id began.
func dayOf(id string, now time.Time) string {
	start, ok := journal.TimeOf(id)
	if !ok {
		start = now
	}
	return start.UTC().Format(time.DateOnly)
}

// record writes the record of a run.
func (s *shipper) record(ctx context.Context, e *journal.Ended) error {
	all, err := entries(e.ID, e.Runs)
	if err != nil {
		s.fault(fmt.Errorf("run %s: %w", e.ID, err))
		return nil
	}
	var at store.Position
	for _, entry := range all {
		entry.After = at
		if at, err = s.append(ctx, recordLog(e.ID), entry); err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.fault(fmt.Errorf("run %s: %w", e.ID, err))
			return nil
		}
	}
	return nil
}

// chain records in the store that a run continues other runs.
func (s *shipper) chain(ctx context.Context, e *journal.Ended) error {
	if e.First == "" {
		return nil
	}
	data, err := json.Marshal(link{e.ID, e.Continues})
	if err != nil {
		return err
	}
	log := chainLog(e.First)
	return s.again(ctx, func(ctx context.Context) error {
		var at store.Position
		for event, err := range s.opts.Store.Read(ctx, log, store.Position{}) {
			if err != nil {
				return err
			}
			if bytes.Equal(event.Data, data) {
				return nil
			}
			at = event.Position
		}
		_, err := s.opts.Store.Append(ctx, log, store.Entry{After: at, ID: store.NewID(), Data: data})
		return err
	})
}

// announce writes the document that announces a log of a day.
func (s *shipper) announce(day string) error {
	if s.days[day] {
		return nil
	}
	err := s.again(s.ctx, func(ctx context.Context) error {
		_, err := s.opts.Store.Put(ctx, dayKey(day, s.state.Folder), "", []byte("{}"))
		if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	s.days[day] = err == nil
	return err
}

// day adds lines to the log of a day.
func (s *shipper) day(day string, lines []byte) error {
	if err := s.announce(day); err != nil {
		return err
	}
	log, id := dayLog(day, s.state.Folder), store.NewID()
	return s.again(s.ctx, func(ctx context.Context) error {
		at, known := s.ends[day]
		if !known {
			last, err := s.opts.Store.Last(ctx, log)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if last.ID == id { // an earlier attempt with a lost answer
				s.ends[day] = last.Position
				return nil
			}
			at = last.Position
		}
		at, err := s.opts.Store.Append(ctx, log, store.Entry{After: at, ID: id, Data: lines})
		if errors.Is(err, store.ErrGone) { // the store was lost, and is empty
			delete(s.days, day)
			if err := s.announce(day); err != nil {
				return err
			}
		}
		if delete(s.ends, day); err == nil {
			s.ends[day] = at
		}
		return err
	})
}

// append is Append of the store, for as long as necessary. An existing record in another form
// stays, and is an error.
func (s *shipper) append(ctx context.Context, log string, e store.Entry) (at store.Position, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		at, err = s.opts.Store.Append(ctx, log, e)
		if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
			return &finalError{err}
		}
		return err
	})
	return at, err
}

// finalError is an error that further attempts would not change.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// again calls f until it succeeds, ctx ends, or f returns a final error, which again returns.
func (s *shipper) again(ctx context.Context, f func(context.Context) error) error {
	said := false
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		attempt, cancel := context.WithTimeout(ctx, appendTime)
		err := f(attempt)
		cancel()
		switch {
		case err == nil:
			if said {
				s.opts.Log.Info("the journal is shipped to the store of the fleet again")
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err):
			return err
		}
		if !said && wait > minBackoff {
			said = true
			s.opts.Log.Warn("the journal is not shipped to the store of the fleet now: records wait in its files", "dir", s.opts.Dir, "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func isFinal(err error) bool {
	var final *finalError
	var size *store.SizeError
	var name *store.NameError
	return errors.As(err, &final) || errors.As(err, &size) || errors.As(err, &name)
}

// clear removes the documents of days without logs, once a day. The day comes from this machine's
// clock, which may be some hours wrong.
func (s *shipper) clear() {
	today := s.opts.Now().UTC().Format(time.DateOnly)
	if s.cleared == today {
		return
	}
	oldest := s.opts.Now().Add(-s.opts.MaxAge - 72*time.Hour).UTC().Format(time.DateOnly)
	ctx, cancel := context.WithTimeout(s.ctx, clearTime)
	defer cancel()
	for d, err := range s.opts.Store.Documents(ctx, collection) {
		if err != nil {
			return // the next time
		}
		if day, _, ok := readDayKey(d.Key); ok && day < oldest {
			if err := s.opts.Store.Remove(ctx, d.Key, d.Version); err != nil {
				s.opts.Log.Debug("an old document was not removed", "document", d.Key.String(), "err", err)
			}
			delete(s.days, day)
			delete(s.ends, day)
		}
	}
	s.cleared = today
	s.clearCursors(oldest)
}

// clearCursors removes the files of past days.
func (s *shipper) clearCursors(oldest string) {
	old, _ := filepath.Glob(filepath.Join(s.stateDir(), "read-*.json"))
	for _, path := range old {
		if filepath.Base(path) < "read-"+oldest {
			_ = os.Remove(path) // the next time
		}
	}
}
