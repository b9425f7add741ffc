package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// State is what the log of a run says.
type State struct {
	About
	// Record is the run with the runs of saved tools that it calls, as far as they got. Its
	// ids are those of the log; the ids in the journal differ once the run was taken.
	Record journal.Record
	// LastRecord is the id of the last record that the journal has of the run.
	LastRecord string
	// Used is how long the run has taken.
	Used time.Duration
	// Owners is how many processes have made it so far, one after the other.
	Owners int
	// Over says that the run has ended, so that its log only has to be removed.
	Over bool

	secret  []byte // see Run.Key
	intents map[callPlace]bool
	undoing map[string]*Undoing // by the id of the run in the tree
	bytes   int64               // of the log, as they are counted
}

// About is what is needed to go on with a run, in addition to its input.
type About struct {
	// Principal and Token are those of the client; see route.Session.
	Principal string `json:"principal,omitempty"`
	Token     string `json:"token,omitempty"`
}

// Undoing are the compensations of a run that has failed.
type Undoing struct {
	Failure json.RawMessage `json:"failure"` // see journal.Outcome
	Fuel    uint64          `json:"fuel,omitempty"`
	Calls   []UndoCall      `json:"calls"` // in the order in which they are made
}

// UndoCall is one of them. Server and Tool are real names.
type UndoCall struct {
	Request abi.ToolCall `json:"request"`
	Server  string       `json:"server"`
	Tool    string       `json:"tool"`
}

// callPlace is a call in a tree of runs.
type callPlace struct {
	run string
	seq int
}

// InDoubt reports whether it is not known if a call was made: there is an intent. It matters
// only for a call without an answer.
func (s *State) InDoubt(run string, seq int) bool { return s.intents[callPlace{run, seq}] }

// Undoing returns the compensations of a run in the tree; nil if it has not failed.
func (s *State) Undoing(run string) *Undoing { return s.undoing[run] }

// Doubts are the calls that are in doubt, those of runs below included.
func (s *State) Doubts() (all []journal.CallRecord) {
	var collect func(r *journal.Record)
	collect = func(r *journal.Record) {
		for _, c := range r.Calls {
			if !c.Done && s.InDoubt(r.ID, c.Seq) {
				all = append(all, c)
			}
			if c.Answer.Run != nil {
				collect(c.Answer.Run)
			}
		}
	}
	collect(&s.Record)
	return all
}

// event is one that the journal does not have. Readers of the journal's format skip it.
type event struct {
	Kind    string        `json:"t"`
	Run     string        `json:"run"`
	Call    int           `json:"seq,omitempty"`
	Tool    string        `json:"tool,omitempty"`   // of an intent
	Digest  string        `json:"digest,omitempty"` // SHA-256 of its arguments
	Key     string        `json:"key,omitempty"`    // idempotency key
	Record  string        `json:"record,omitempty"`
	Used    time.Duration `json:"used,omitempty"`
	About   *About        `json:"about,omitempty"`
	Secret  []byte        `json:"secret,omitempty"` // with About; see Run.Key
	Undoing *Undoing      `json:"undoing,omitempty"`
}

// The kinds of events.
const (
	kindAbout   = "about"
	kindIntent  = "intent"
	kindUndoing = "undoing"
	kindRecord  = "record"
	kindUsed    = "used"
	kindOver    = "over"
)

// read returns what a log says, and where it ends.
func (s *Runs) read(ctx context.Context, id string) (*State, store.Position, error) {
	var last store.Position
	var text bytes.Buffer
	owners := map[uint64]bool{}
	bytes := int64(runRoom)
	for e, err := range s.opts.Store.Read(ctx, id, store.Position{}) {
		if err != nil {
			return nil, last, err
		}
		data, err := s.open(id, e.Position.Number, e.Data)
		if err != nil {
			return nil, last, err
		}
		text.Write(data)
		last = e.Position
		bytes += int64(len(data)) + eventRoom
		owners[e.Position.Fence] = true
	}
	if text.Len() == 0 {
		return nil, last, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	state := &State{LastRecord: id, Owners: len(owners), bytes: bytes, intents: map[callPlace]bool{}, undoing: map[string]*Undoing{}}
	if err := state.decode(text.Bytes()); err != nil {
		return nil, last, fmt.Errorf("run %s: its log cannot be read: %w", id, err)
	}
	return state, last, nil
}

func (s *State) decode(text []byte) (err error) {
	if s.Record, err = journal.Decode(bytes.NewReader(text)); err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var kind struct {
			Kind string `json:"t"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			return err
		}
		if !slices.Contains([]string{kindAbout, kindIntent, kindUndoing, kindRecord, kindUsed, kindOver}, kind.Kind) {
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		s.apply(e)
	}
	return nil
}

func (s *State) apply(e event) {
	switch e.Kind {
	case kindAbout:
		s.About, s.secret = *e.About, e.Secret
	case kindIntent:
		s.intents[callPlace{e.Run, e.Call}] = true
	case kindUndoing:
		s.undoing[e.Run] = e.Undoing
	case kindRecord:
		s.LastRecord = e.Record
	case kindUsed:
		s.Used = max(s.Used, e.Used)
	case kindOver:
		s.Over = true
	}
}
