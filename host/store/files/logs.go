package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// stripes is how many locks the logs have in common.
const stripes = 64

// lockPath returns the path of the lock of a log.
func (s *Store) lockPath(log string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(log))
	return filepath.Join(s.positions(), fmt.Sprintf(".lock-%d", h.Sum32()%stripes))
}

// change calls f with the index of a log, while nobody else changes it.
func (s *Store) change(ctx context.Context, log string, f func(*index) error) error {
	what := "log " + log
	if err := store.CheckLog(log); err != nil {
		return err
	}
	ctx, cancel, err := s.begin(ctx, what)
	if err != nil {
		return err
	}
	defer cancel()
	if err := s.makeFolder(s.positions()); err != nil {
		return s.failed(ctx, what, err)
	}
	l, err := lock(ctx, s.lockPath(log))
	if err != nil {
		return s.failed(ctx, what, err)
	}
	defer l.Close()
	x, err := s.openIndex(log, true)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	defer x.file.Close()
	return f(x)
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, log string, e store.Entry) (at store.Position, err error) {
	if err := errors.Join(store.CheckLog(log), e.Check()); err != nil {
		return at, err
	}
	if e.Fence < e.After.Fence {
		return at, &store.FencedError{Log: log, Number: e.After.Fence}
	}
	line := toLine(log, e.Data)
	err = s.change(ctx, log, func(x *index) error {
		if e.After.Number < x.end.number {
			next, ok, err := x.event(e.After.Number + 1)
			if err != nil {
				return s.failed(ctx, "log "+log, err)
			}
			if ok && next.id == e.ID {
				at = next.position()
				return s.lasts(log, &next)
			}
		}
		switch {
		case x.end.fence > e.Fence:
			return &store.FencedError{Log: log, Number: x.end.fence}
		case x.end.number < e.After.Number:
			return fmt.Errorf("log %s: %w", log, store.ErrGone)
		case x.end.number != e.After.Number:
			return &store.ConflictError{What: "log " + log, Last: x.end.position()}
		}
		r := record{
			kind: kindEvent, number: e.After.Number + 1, fence: e.Fence, id: e.ID,
			size: len(line), digest: digestOf(line),
		}
		at = r.position()
		return s.write(ctx, log, x, r, line)
	})
	if err != nil {
		return store.Position{}, err
	}
	return at, nil
}

// write writes a record, and then its line.
func (s *Store) write(ctx context.Context, log string, x *index, r record, line []byte) error {
	what, sync := "log "+log, s.opts.Journal.Syncs()
	written, err := s.opts.Journal.AppendLine(line, func(at journal.Place) error {
		r.place = at
		if len(at.File) > fileNameSize {
			return fmt.Errorf("the name of the journal's file %s is too long", at.File)
		}
		return x.add(&r, sync)
	})
	switch {
	case err == nil:
		s.remember(log, &r)
		return nil
	case written: // and it may not last
		s.mu.Lock()
		if len(s.unsynced) >= maxVerified {
			clear(s.unsynced)
		}
		s.unsynced[log] = r.id
		s.mu.Unlock()
		return unknown(what, err)
	case r.place.File == "": // there was no place for it
		return s.failed(ctx, what, err)
	}
	// The line can be whole in spite of the error.
	_, found := s.line(&r)
	return s.unwritten(ctx, what, err, found)
}

// lasts returns why an event that is there may not last after a crash of the machine: its writer
// may have come to its end before it was on the disk.
func (s *Store) lasts(log string, r *record) error {
	if !s.opts.Journal.Syncs() {
		return nil
	}
	what := "log " + log
	s.mu.Lock()
	doubt := s.unsynced[log] == r.id
	s.mu.Unlock()
	if doubt { // syncing again would say nothing about what was lost then
		return unknown(what, errUnsynced)
	}
	f, err := regular.Open(filepath.Join(s.opts.Journal.Dir(), filepath.Base(r.place.File)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // old files are removed, and were whole
	}
	if err != nil {
		return unknown(what, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return unknown(what, err)
	}
	return nil
}

// errUnsynced says that an event could not be brought to the disk.
var errUnsynced = errors.New("it could not be synced to the disk")

// Fence implements [store.Store].
func (s *Store) Fence(ctx context.Context, log string, number uint64) (at store.Position, err error) {
	err = s.change(ctx, log, func(x *index) error {
		at = x.end.position()
		switch {
		case x.end.fence > number:
			return &store.FencedError{Log: log, Number: x.end.fence}
		case x.end.fence == number:
			return nil
		}
		r := record{kind: kindFence, number: x.end.number, fence: number}
		at = r.position()
		if err := x.add(&r, s.opts.Journal.Syncs()); err != nil {
			return s.failed(ctx, "log "+log, err)
		}
		s.remember(log, &r)
		return nil
	})
	if err != nil {
		return store.Position{}, err
	}
	return at, nil
}

// Drop implements [store.Store]. The lines stay in the journal until that removes them.
func (s *Store) Drop(ctx context.Context, log string) error {
	return s.change(ctx, log, func(x *index) error {
		s.mu.Lock()
		delete(s.verified, log)
		s.mu.Unlock()
		_ = x.file.Close() // Windows removes no open file
		if err := os.Remove(s.indexPath(log)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.failed(ctx, "log "+log, err)
		}
		return nil
	})
}
