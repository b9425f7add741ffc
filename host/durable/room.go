package durable

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The logs of open runs are not removed to make room for others. So what they have is counted, for
// each client and in all: a client may have as much as is free. One that takes all that it gets leaves
// half of the room to others, and its own runs, which end then, have room to undo what they did. What other processes have written is known from the leases, some seconds later.

// Bytes that are counted for each run and for each event, apart from what is written in them.
const (
	runRoom   = 4 << 10
	eventRoom = 256
)

// FullError says that a client's open runs have so much in their logs that there is no room for more.
type FullError struct{ Used, Free, Room int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("the logs of this client's open durable runs have %s, and a client may have as much as is free, which is %s of %s "+
		"(let runs end; mcp-metatool runs list --open has them, and max_total in [journal] says how much room there is)",
		display.Size(uint64(e.Used)), display.Size(uint64(max(0, e.Free))), display.Size(uint64(e.Room)))
}

// count notes what the logs of open runs have, by their leases, of which each says whose run it is.
func (s *Runs) count(docs map[string]store.Document) {
	logs := map[string]held{}
	for name, d := range docs {
		if data, err := lease.DataOf(d); err == nil {
			logs[name] = readHeld(data)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs, s.counted = logs, s.opts.Now()
}

// recount counts again, unless that was done just now.
func (s *Runs) recount(ctx context.Context) error {
	s.mu.Lock()
	fresh := s.logs != nil && s.opts.Now().Sub(s.counted) < s.opts.TTL/2
	s.mu.Unlock()
	if fresh {
		return nil
	}
	docs := map[string]store.Document{}
	for d, err := range s.opts.Store.Leases(ctx) {
		if err != nil {
			return err
		}
		docs[d.Name] = d
	}
	s.count(docs)
	return nil
}

// admit returns a *FullError if a client has no room for more bytes in logs.
func (s *Runs) admit(account string, more int64) error {
	if s.opts.Room <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var used, all int64
	add := func(whose string, bytes int64) {
		all += bytes
		if whose == account {
			used += bytes
		}
	}
	for id, is := range s.logs {
		if s.ours[id] == nil {
			add(is.Account, is.Bytes)
		}
	}
	for _, r := range s.ours {
		add(r.account, r.bytes.Load())
	}
	if free := s.opts.Room - all; used+more > free {
		return &FullError{used, free, s.opts.Room}
	}
	return nil
}

// admitted returns a *FullError, and ends the run, if there is no room for a further call of a run in
// the tree, unless that undoes what it did.
func (r *Run) admitted(run string) error {
	r.mu.Lock()
	undoes := r.undoing[run]
	r.mu.Unlock()
	if undoes || r.gone.Load() {
		return nil
	}
	err := r.runs.admit(r.account, eventRoom)
	if err != nil {
		err = fmt.Errorf("run %s: %w", r.id, err)
		r.end(err)
	}
	return err
}

// undoes notes that a run in the tree undoes what it did.
func (r *Run) undoes(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undoing[run] = true
}
