package tools

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Counts are written in batches, some time after the executions. A failed write is repeated at
// growing intervals.
const (
	countDelay    = time.Second
	countDelayMax = time.Minute
)

// executions are a tool's executions that are not yet on disk.
type executions struct {
	n    int64
	last time.Time
}

// RecordExecution counts one execution of a tool, which began or ended at the given time. The call
// changes only memory: the file is written within seconds, at the latest by Close. List and Get
// include executions not yet on disk. Executions of a tool deleted in the meantime are dropped.
// After Close, RecordExecution does nothing.
func (s *Store) RecordExecution(name string, at time.Time) {
	if s.closed() {
		s.log.Debug("execution is not counted: the tool store is closed", "tool", name)
		return
	}
	s.mu.Lock()
	x := s.pending[name]
	x.n++
	if at.After(x.last) {
		x.last = at.UTC()
	}
	s.pending[name] = x
	s.mu.Unlock()
	wake(s.counted)
}

// withPending adds the executions not yet on disk to a definition. The caller holds files.
func (s *Store) withPending(d Definition) Definition {
	s.counts.all[d.Name].addTo(&d.Metadata)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[d.Name].addTo(&d.Metadata)
	return d
}

func (x executions) addTo(m *Metadata) {
	if m.ExecutionCount > math.MaxInt64-x.n {
		m.ExecutionCount = math.MaxInt64
	} else {
		m.ExecutionCount += x.n
	}
	if x.last.After(m.LastExecuted) {
		m.LastExecuted = x.last
	}
}

// forget drops the pending executions of a tool.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, name)
}

// deduct subtracts written executions from the pending ones.
func (s *Store) deduct(name string, written executions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.pending[name]
	if x.n -= written.n; x.n <= 0 {
		delete(s.pending, name)
		return
	}
	s.pending[name] = x
}

// writeCounts writes counts until Close. The store runs it as a goroutine.
func (s *Store) writeCounts() {
	var due <-chan time.Time
	delay := countDelay
	for {
		select {
		case <-s.done:
			return
		case <-s.counted:
			if due == nil {
				due = time.After(delay)
			}
		case <-due:
			due = nil
			err := s.flush()
			if err == nil {
				delay = countDelay
				continue
			}
			delay = min(2*delay, countDelayMax)
			s.log.Warn("execution counts are not written yet", "error", err, "retry_in", delay)
			due = time.After(delay)
		}
	}
}

// flush adds the pending executions to the counts on disk, which other processes may have
// changed.
func (s *Store) flush() error {
	batch := s.recorded()
	if len(batch) == 0 {
		return nil
	}
	err := s.exclusive(lockWait, func(root *os.Root) error {
		batch = s.recorded() // a tool deleted during the wait has none left
		if s.shared != nil {
			return s.flushBeside(root, batch)
		}
		var failed []error
		for _, name := range slices.Sorted(maps.Keys(batch)) {
			failed = append(failed, s.flushOne(root, name, batch[name]))
		}
		return errors.Join(failed...)
	})
	if err != nil {
		return fmt.Errorf("execution counts of %s: %w", strings.Join(slices.Sorted(maps.Keys(batch)), ", "), err)
	}
	return nil
}

func (s *Store) recorded() map[string]executions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pending)
}

// flushOne writes the count of one tool. If the tool is gone, the executions are dropped; if its
// file is corrupt, they stay pending until the file is repaired.
func (s *Store) flushOne(root *os.Root, name string, x executions) error {
	e, err := s.find(name)
	if errors.Is(err, ErrNotFound) {
		s.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	def := e.def
	x.addTo(&def.Metadata)
	_, err = s.writeTool(root, &def, x, nil)
	return err
}
