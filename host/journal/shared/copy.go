package shared

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Count counts the results of a copy for runs, or for calls without a script.
type Count struct {
	Copied    int      // or would be, in a dry run
	Same      int      // existed already
	Different []string // names of runs or calls that exist with another content, which stays
}

// Copy is a copy of a journal between the files of a folder and the store of a fleet. Existing
// records stay. No process should ship the folder during the copy.
type Copy struct {
	Runs, Calls Count
	Checkpoints Count
	dry         bool
}

// CopyToStore copies the ended runs and calls of the folder to the store, like shipping, and reads
// the copies. With dry, CopyToStore only compares.
func (j *Journal) CopyToStore(ctx context.Context, dry bool) (*Copy, error) {
	c := &Copy{dry: dry}
	own := state{Folder: "none"}
	if !dry {
		var err error
		if own, err = j.openState(); err != nil {
			return c, err
		}
	}
	stop := context.AfterFunc(ctx, j.stop)
	defer stop()
	s := &shipper{Journal: j, state: own, tail: journal.NewTail(j.opts.Dir, nil), days: map[string]bool{}, ends: map[string]store.Position{}}
	listed := map[string]map[string]bool{} // contents of the logs of a day
	fault := func(err error) { c.Runs.Different = append(c.Runs.Different, err.Error()) }
	n, err := s.tail.Look(ctx, time.Unix(0, 0), fault)
	if err != nil {
		return c, err
	}
	for n > 0 {
		var todo []journal.Ended
		taken := s.tail.Take(maxTaken, maxBytes, fault)
		for _, e := range taken {
			day := dayOf(e.ID, j.opts.Now())
			if listed[day] == nil {
				if listed[day], err = j.listed(ctx, day); err != nil {
					return c, err
				}
			}
			there, same := listed[day][e.ID], true
			if e.Runs != nil {
				var has bool
				if has, same, err = j.hasRecord(ctx, &e); err != nil {
					return c, err
				}
				there = there && has
			}
			if c.count(&e).add("run "+e.ID, there, same) {
				todo = append(todo, e)
			}
		}
		if !dry {
			if err := s.ship(todo); err != nil {
				return c, context.Cause(ctx)
			}
			for i := range todo {
				if err := j.verify(ctx, &todo[i]); err != nil {
					return c, err
				}
			}
		}
		n, _ = s.tail.Waiting()
		own.Marks = s.tail.Done(taken)
	}
	if dry || len(c.Runs.Different) > 0 {
		return c, nil
	}
	return c, writeJSON(j.statePath(), own) // the folder need not be shipped later
}

// count returns the Count for an ended run or call.
func (c *Copy) count(e *journal.Ended) *Count {
	if e.Runs == nil {
		return c.countLine(e.Call)
	}
	return &c.Runs
}

// countLine returns the Count for a line.
func (c *Copy) countLine(line []byte) *Count {
	if journal.IsCheckpoint(line) {
		return &c.Checkpoints
	}
	return &c.Calls
}

// add counts a run or call, and reports whether to copy the run or call.
func (c *Count) add(what string, there, same bool) bool {
	switch {
	case !same:
		c.Different = append(c.Different, what)
	case there:
		c.Same++
	default:
		c.Copied++
		return true
	}
	return false
}

// hasRecord reports whether the store has a record of a run, and whether the record is the same.
func (j *Journal) hasRecord(ctx context.Context, e *journal.Ended) (has, same bool, err error) {
	want, err := entries(e.ID, e.Runs)
	if err != nil {
		return false, false, err
	}
	n := 0
	for event, err := range j.opts.Store.Read(ctx, recordLog(e.ID), store.Position{}) {
		if err != nil {
			return false, false, err
		}
		if n >= len(want) || !bytes.Equal(event.Data, want[n].Data) {
			return true, false, nil
		}
		n++
	}
	return n == len(want), true, nil
}

// verify reads a copy.
func (j *Journal) verify(ctx context.Context, e *journal.Ended) error {
	if e.Runs == nil {
		return nil // a finished append is in the store
	}
	has, same, err := j.hasRecord(ctx, e)
	if err == nil && (!has || !same) {
		err = &store.CorruptError{What: "run " + e.ID, Reason: "differs from the data just written"}
	}
	return err
}

// listed returns the ids of the runs and calls in the logs of a day.
func (j *Journal) listed(ctx context.Context, day string) (map[string]bool, error) {
	ids := map[string]bool{}
	err := j.eachLine(ctx, day, func(line []byte) error {
		id, isRun := readDayLine(line)
		if !isRun {
			var err error
			if id, err = journal.RunOf(line); err != nil {
				return err
			}
		}
		ids[id] = true
		return nil
	})
	return ids, err
}

// eachLine calls f with the lines in the logs of a day, of all folders.
func (j *Journal) eachLine(ctx context.Context, day string, f func([]byte) error) error {
	for d, err := range j.opts.Store.Documents(ctx, collection) {
		if err != nil {
			return err
		}
		of, folder, ok := readDayKey(d.Key)
		if !ok || of != day {
			continue
		}
		for e, err := range j.opts.Store.Read(ctx, dayLog(day, folder), store.Position{}) {
			if err != nil {
				return fmt.Errorf("the records of %s: %w", day, err)
			}
			for line := range bytes.SplitSeq(bytes.TrimSuffix(e.Data, []byte{'\n'}), []byte{'\n'}) {
				if err := f(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// CopyToFiles copies the records of the store to the files of the folder, and reads the copies.
// With dry, CopyToFiles only compares.
func (j *Journal) CopyToFiles(ctx context.Context, dry bool) (*Copy, error) {
	c := &Copy{dry: dry}
	days := map[string]bool{}
	for d, err := range j.opts.Store.Documents(ctx, collection) {
		if err != nil {
			return c, err
		}
		if day, _, ok := readDayKey(d.Key); ok {
			days[day] = true
		}
	}
	for day := range days {
		if err := j.copyDay(ctx, day, c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (j *Journal) copyDay(ctx context.Context, day string, c *Copy) error {
	there, calls, err := j.inFiles(ctx, day)
	if err != nil {
		return err
	}
	add := journal.Copied{}
	seen, size := map[string]bool{}, 0
	flush := func() error {
		if c.dry || len(add.Runs)+len(add.Calls) == 0 {
			return nil
		}
		err := j.add(ctx, add)
		add, size = journal.Copied{}, 0
		return err
	}
	err = j.eachLine(ctx, day, func(line []byte) error {
		id, isRun := readDayLine(line)
		if !isRun {
			if id, err = journal.RunOf(line); err != nil || seen[id] {
				return err
			}
			seen[id] = true
			if c.countLine(line).add("call "+id, calls[id], true) {
				add.Calls, size = append(add.Calls, bytes.Clone(line)), size+len(line)
			}
		} else if !seen[id] {
			seen[id] = true
			runs, err := j.read(ctx, id)
			if err != nil || runs == nil { // the run was removed
				return err
			}
			has, same := true, true
			for _, r := range runs {
				lines, ok := there[r.Run]
				has = has && ok
				same = same && (!ok || slices.EqualFunc(lines, r.Lines, bytes.Equal))
				for _, line := range r.Lines {
					size += len(line)
				}
			}
			if c.Runs.add("run "+id, has, same) {
				add.Runs = append(add.Runs, runs...)
			}
		}
		if size > maxBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil || c.dry {
		return err
	}
	again := &Copy{dry: true}
	if err := j.copyDay(ctx, day, again); err != nil {
		return err
	}
	if n := again.Runs.Copied + again.Calls.Copied + again.Checkpoints.Copied; n > 0 {
		return &store.CorruptError{What: fmt.Sprintf("the journal in %s", j.opts.Dir), Reason: fmt.Sprintf("lacks %d runs and calls that were just written", n)}
	}
	return nil
}

// inFiles returns the lines of the runs of a day in the files, by the ids of the runs, and the ids
// of the calls and checkpoints. Nested runs can be in the files of the following days.
func (j *Journal) inFiles(ctx context.Context, day string) (runs map[string][][]byte, calls map[string]bool, err error) {
	begin, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is no day: %w", day, err)
	}
	runs = map[string][][]byte{}
	f := journal.Filter{Since: begin, Until: begin.Add(72 * time.Hour)}
	if calls, err = journal.Checkpoints(ctx, j.opts.Dir, f.Since, f.Until); err != nil {
		return nil, nil, err
	}
	for l, err := range journal.ReadLines(ctx, j.opts.Dir, f) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err == nil {
			runs[l.Run] = l.Lines
		}
	}
	for p, err := range journal.ScanProxied(ctx, j.opts.Dir, f) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err == nil {
			calls[p.ID] = true
		}
	}
	return runs, calls, nil
}
