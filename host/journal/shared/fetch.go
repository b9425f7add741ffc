package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Limits on the time to read a run, and to read a part of a day.
const (
	runTime = 10 * time.Second
	dayTime = time.Minute
)

// Bounds on a fetch.
const (
	maxBroughtRuns  = 500
	maxBroughtBytes = 16 << 20
)

// use returns a context for a call of the store. The error is the reason why the store is unusable.
func (j *Journal) use(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc, error) {
	if err := j.opts.Away(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(j.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// Days implements journal.Others.
func (j *Journal) Days(ctx context.Context) ([]string, error) {
	ctx, done, err := j.use(ctx, runTime)
	if err != nil {
		return nil, err
	}
	defer done()
	own := j.ownFolder(ctx)
	folders := map[string][]string{}
	for d, err := range j.opts.Store.Documents(ctx, collection) {
		if err != nil {
			return nil, err
		}
		if day, folder, ok := readDayKey(d.Key); ok && folder != own {
			folders[day] = append(folders[day], folder)
		}
	}
	j.mu.Lock()
	j.days = folders
	j.mu.Unlock()
	var days []string
	for day := range folders {
		days = append(days, day)
	}
	return days, nil
}

// ownFolder returns the id of this folder; or "".
func (j *Journal) ownFolder(ctx context.Context) string {
	j.mu.Lock()
	folder := j.folder
	j.mu.Unlock()
	if folder != "" {
		return folder
	}
	s, err := readState(ctx, j.statePath())
	if err != nil {
		return ""
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.folder = s.Folder
	return j.folder
}

// Day implements journal.Others. Days must have been called before.
func (j *Journal) Day(ctx context.Context, day string) error {
	select {
	case j.fetching <- struct{}{}:
		defer func() { <-j.fetching }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	j.mu.Lock()
	folders := slices.Clone(j.days[day])
	j.mu.Unlock()
	if len(folders) == 0 {
		return nil
	}
	at := j.readCursors(ctx, day)
	for _, folder := range folders {
		for more := true; more; {
			var err error
			if more, err = j.part(ctx, day, folder, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// brought has the runs and calls read from the log of a day.
type brought struct {
	runs  []string
	calls [][]byte
	size  int
	at    store.Position
}

// part fetches the next part of a day of a folder. more is set if further parts may follow.
func (j *Journal) part(ctx context.Context, day, folder string, cursors cursors) (more bool, err error) {
	ctx, done, err := j.use(ctx, dayTime)
	if err != nil {
		return false, err
	}
	defer done()
	b := brought{at: cursors[folder]}
	for e, err := range j.opts.Store.Read(ctx, dayLog(day, folder), b.at) {
		if errors.Is(err, store.ErrGone) && b.at.Number == 0 {
			j.opts.Log.Debug("the beginning of a day was removed from the store of the fleet, so the rest of the day is left out", "day", day, "folder", folder)
			return false, nil
		}
		if errors.Is(err, store.ErrGone) { // so is the rest of the log, unless the log began again in a new stream
			delete(cursors, folder)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for line := range bytes.SplitSeq(bytes.TrimSuffix(e.Data, []byte{'\n'}), []byte{'\n'}) {
			if run, ok := readDayLine(line); ok {
				b.runs = append(b.runs, run)
			} else {
				b.calls = append(b.calls, line)
			}
		}
		b.at, b.size = e.Position, b.size+len(e.Data)
		if more = len(b.runs) >= maxBroughtRuns || b.size >= maxBroughtBytes; more {
			break
		}
	}
	if b.at == cursors[folder] {
		return false, nil
	}
	if err := j.bring(ctx, day, &b); err != nil {
		return false, err
	}
	cursors[folder] = b.at
	return more, writeJSON(j.cursorPath(day), cursors)
}

// bring adds runs and calls to the files.
func (j *Journal) bring(ctx context.Context, day string, b *brought) error {
	there, err := journal.CopiedIDs(ctx, j.opts.Dir, day)
	if err != nil {
		return err
	}
	runs := make([][]journal.RunLines, len(b.runs))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, id := range b.runs {
		if !there[id] {
			group.Go(func() (err error) {
				runs[i], err = j.read(within, id)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return j.add(ctx, journal.Copied{Runs: slices.Concat(runs...), Calls: b.calls})
}

// add adds runs and calls to the files.
func (j *Journal) add(ctx context.Context, c journal.Copied) error {
	leftOut, err := journal.AddCopied(ctx, j.opts.Dir, c)
	if leftOut > 0 {
		j.opts.Log.Warn("lines of another replica are left out: they are not lines of a journal", "runs and calls", leftOut)
	}
	return err
}

// read returns a run in the store, with the nested runs; nil for a removed or unreadable run.
func (j *Journal) read(ctx context.Context, id string) ([]journal.RunLines, error) {
	if store.CheckLog(recordLog(id)) != nil {
		return nil, nil
	}
	var events [][]byte
	for e, err := range j.opts.Store.Read(ctx, recordLog(id), store.Position{}) {
		switch {
		case errors.Is(err, store.ErrGone):
			return nil, nil
		case err != nil:
			return nil, err
		}
		events = append(events, e.Data)
	}
	if len(events) == 0 {
		return nil, nil
	}
	runs, err := readRecord(id, events)
	if err != nil && !errors.Is(err, errPartial) { // an incomplete record is left out
		j.opts.Log.Warn("a record of another replica is left out", "err", err)
	}
	return runs, nil
}

// Run implements journal.Others.
func (j *Journal) Run(ctx context.Context, id string) error {
	ctx, done, err := j.use(ctx, runTime)
	if err != nil {
		return err
	}
	defer done()
	runs, err := j.read(ctx, id)
	if err != nil || runs == nil {
		return err
	}
	return j.add(ctx, journal.Copied{Runs: runs})
}

// LastOf implements journal.Others.
func (j *Journal) LastOf(ctx context.Context, first string) (last string, runs int, err error) {
	if store.CheckLog(chainLog(first)) != nil {
		return "", 0, nil
	}
	ctx, done, err := j.use(ctx, runTime)
	if err != nil {
		return "", 0, err
	}
	defer done()
	for e, err := range j.opts.Store.Read(ctx, chainLog(first), store.Position{}) {
		if err != nil {
			return "", 0, err
		}
		l, err := readLink(e.Data)
		if err != nil {
			return "", 0, fmt.Errorf("the chain of run %s: %w", first, err)
		}
		last, runs = l.Run, runs+1
	}
	return last, runs, nil
}
