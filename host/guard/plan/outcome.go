package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// State is the outcome of a write of an applied plan.
type State string

// The states of writes.
const (
	WasMade   State = "made"
	Failed    State = "failed"   // the server has answered with an error
	NotMade   State = "not made" // never sent
	IsUnknown State = "unknown"  // sent, or about to be sent, and without an answer
)

// Made is the outcome of a write.
type Made struct {
	Write int
	Call  string // SERVER.TOOL
	State State
	// Message is the error of a failed write, or why the write was not made.
	Message string
}

// made returns the outcome of the writes of a plan, from the record of the run that carried the
// plan out, and the index after the last started call. The record can end anywhere: the process may
// have ended.
func made(p *Plan, rec *journal.Record) (all []Made, at int) {
	all = []Made{}
	steps := p.all()
	notMade := NotMade
	if rec.Any(func(r *journal.Record) bool { return r.Incomplete }) {
		notMade = IsUnknown
	}
	walk(rec, func(c *journal.CallRecord) {
		for i := at; i < len(steps); i++ {
			s := &steps[i]
			if s.Do != Read && s.Do != Write {
				continue
			}
			if s.Server != c.Server || s.Tool != c.Tool || !wasTried(c) {
				return // another call, which the run was not allowed to make
			}
			at = i + 1
			if s.Do == Write && i >= len(p.Before) {
				all = append(all, madeOf(s, c))
			}
			return
		}
	})
	for i := at; i < len(steps); i++ {
		if s := &steps[i]; s.Do == Write && i >= len(p.Before) {
			all = append(all, Made{Write: s.Write, Call: s.name(), State: notMade})
		}
	}
	return all, at
}

// walk calls f with the calls of upstreams in a record, in their order.
func walk(rec *journal.Record, f func(*journal.CallRecord)) {
	for i := range rec.Calls {
		c := &rec.Calls[i]
		switch {
		case c.Undo:
		case c.Answer.Run != nil:
			walk(c.Answer.Run, f)
		case c.Server != abi.Composites:
			f(c)
		}
	}
}

// wasTried reports whether a call is a step of the plan: the host has not refused the call.
func wasTried(c *journal.CallRecord) bool {
	if !c.Done || c.Answer.Err == nil {
		return true
	}
	switch c.Answer.Err.Type {
	case abi.ErrPermission, abi.ErrValidation:
		return false
	}
	return c.Answer.Err.Message != compose.NotMade
}

func madeOf(s *Step, c *journal.CallRecord) Made {
	m := Made{Write: s.Write, Call: s.name(), State: WasMade}
	e := c.Answer.Err
	switch {
	case !c.Done:
		m.State = IsUnknown
	case e == nil:
	default:
		m.State, m.Message = Failed, display.ClipSize(e.Message, maxMessage)
		if e.Type == abi.ErrTimeout || e.Type == abi.ErrCancelled {
			m.State = IsUnknown
		}
	}
	return m
}

// Aftermath is the journal's account of the run that carried out a plan.
type Aftermath struct {
	Run   string // id
	Made  []Made
	Ended bool // the run has ended; else the run goes on, or its process was stopped
	// Left are the compensations that an unfinished run has not made, the last first.
	Left []Step
}

// OnDisk returns the aftermath of an applied plan, from the journal. used is the claim for the
// plan.
func OnDisk(ctx context.Context, runs journal.Reader, f *File, used *AppliedError) (*Aftermath, error) {
	if used.Run == "" {
		return nil, errors.New("the run is not in the journal")
	}
	rec, err := runs.Find(ctx, used.Run)
	if err != nil {
		return nil, err
	}
	all, at := made(&f.Plan, &rec)
	after := &Aftermath{Run: rec.ID, Made: all, Ended: rec.Done}
	if !rec.Done {
		after.Left = left(f.Plan.all(), &rec, at)
	}
	return after, nil
}

// left returns the compensations of the steps before at, except for compensations that a commit has
// dropped or that were started, the last first. at is the index after the last started call.
func left(steps []Step, rec *journal.Record, at int) (all []Step) {
	undos, begun := compensations(rec)
	for i, s := range steps {
		switch {
		case s.Do == Undo && undos > 0:
			undos--
			all = append(all, s)
		case s.Do == Commit && (i < at || undos > 0):
			all = nil
		}
	}
	slices.Reverse(all)
	return all[min(begun, len(all)):]
}

// compensations returns how many compensations a run and the runs below have registered, and how
// many they have started.
func compensations(rec *journal.Record) (registered, begun int) {
	for i := range rec.Undos {
		if rec.Undos[i].Err == nil {
			registered++
		}
	}
	for i := range rec.Calls {
		if rec.Calls[i].Undo {
			begun++
		}
		if run := rec.Calls[i].Answer.Run; run != nil {
			more, began := compensations(run)
			registered, begun = registered+more, begun+began
		}
	}
	return registered, begun
}

// Short returns a summary of a plan for agents, as an object.
func (f *File) Short() []byte {
	p := &f.Plan
	var o wire.Object
	o.Text("id", p.ID)
	o.Text("digest", f.Digest)
	o.Text("expires", p.Expires.UTC().Format(time.RFC3339))
	o.Text("tool", p.Name())
	o.Raw("params", p.Params)
	o.Raw("writes", p.shortWrites())
	if p.Open != nil {
		o.Raw("open", wire.Marshal(p.Open))
	} else if p.Result != nil {
		o.Raw("result", p.Result)
	}
	return o.Bytes()
}

// Asked returns the plan for people whose approval is asked for, and for policy as the arguments of
// apply_plan, as an object: only the subject of the decision, since questions have little room.
func (f *File) Asked() []byte {
	p := &f.Plan
	var o wire.Object
	o.Text("plan", p.ID)
	o.Text("digest", f.Digest)
	o.Text("tool", p.Name())
	o.Raw("params", p.Params)
	o.Raw("writes", p.shortWrites())
	return o.Bytes()
}

// shortWrites returns the writes of a plan and its compensations as an array.
func (p *Plan) shortWrites() []byte {
	var items [][]byte
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Do == Read || s.Do == Commit {
			continue
		}
		var item wire.Object
		if s.Do == Write {
			item.Raw("write", fmt.Append(nil, s.Write))
		} else {
			item.Bool("onlyIfItFails", true)
		}
		item.Text("call", s.name())
		item.Raw("arguments", s.Arguments)
		item.NonEmpty("policy", s.Policy)
		items = append(items, item.Bytes())
	}
	return wire.Array(items)
}

// Result returns the CallToolResult for an agent that has applied a plan.
func (o *Outcome) Result(f *File) []byte {
	var text strings.Builder
	switch {
	case o.Differs:
		fmt.Fprintf(&text, "plan %s was stopped, because something is not as planned\n", f.Plan.ID)
	case o.Failure != nil:
		fmt.Fprintf(&text, "plan %s was begun, and has failed\n", f.Plan.ID)
	default:
		fmt.Fprintf(&text, "plan %s was applied\n", f.Plan.ID)
	}
	text.WriteString(o.Text())
	switch {
	case o.Failure != nil:
		text.WriteString(o.Failure.Text())
	case o.Next != nil:
		text.WriteString("\nthe script goes on: this is the next plan\n\n" + o.Next.Text())
	default:
		text.WriteString("\nresult: " + string(o.Record.Outcome.Result))
	}
	return compose.OutcomeResult(text.String(), o.JSON(f), o.Failure != nil)
}

// JSON returns the outcome of an applied plan, as an object.
func (o *Outcome) JSON(f *File) []byte {
	var out wire.Object
	out.Text("plan", f.Plan.ID)
	out.Text("digest", f.Digest)
	out.Text("run", o.Record.ID)
	out.Bool("applied", o.Failure == nil)
	out.Bool("differs", o.Differs)
	items := make([][]byte, len(o.Made))
	for i, m := range o.Made {
		var item wire.Object
		item.Raw("write", fmt.Append(nil, m.Write))
		item.Text("call", m.Call)
		item.Text("state", string(m.State))
		item.NonEmpty("message", m.Message)
		items[i] = item.Bytes()
	}
	out.Raw("writes", wire.Array(items))
	switch {
	case o.Failure != nil:
		out.Raw("error", o.Failure.JSON())
	case o.Next != nil:
		out.Raw("next", o.Next.Short())
	default:
		out.Raw("result", o.Record.Outcome.Result)
	}
	return out.Bytes()
}

// savedName returns the name of the saved tool of a permission.
func savedName(tool string) (name string, ok bool) {
	return strings.CutPrefix(tool, abi.Composites+".")
}

func digestOf(definition []byte) string { return pins.Digest(definition) }
