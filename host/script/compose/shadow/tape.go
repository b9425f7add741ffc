package shadow

import (
	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Tape is the world of a run of a shadow: of the root, or of a saved tool. One goroutine uses all
// tapes of a shadow.
type Tape struct {
	s     *shadow
	path  string
	meta  []byte // of the calls in the tape
	calls int    // so far
	sinks int    // batches so far with calls to sinks for the label
	undos int    // compensations registered so far
	tools map[string]int
	used  map[*Made]bool
}

// WhileWaiting sets the function called with -1 when the shadow begins to wait for the run, and
// with 1 when the shadow goes on. WhileWaiting is called before the first call.
func (p *Tape) WhileWaiting(workers func(n int)) { p.s.workers = workers }

// Played is a call of a shadow and the answer.
type Played struct {
	Server, Tool string // real names
	Answer       journal.Answer
	// Tape and Begin are set if a saved tool answers, which is to be run.
	Tape  *Tape
	Begin journal.Begin
}

// Calls answers a batch of calls.
func (p *Tape) Calls(asked []abi.ToolCall) []Played {
	s := p.s
	clean := !s.tainted
	played := make([]Played, len(asked))
	targets := make([]target, len(asked))
	var at arrival
	for i, c := range asked {
		targets[i] = p.target(c, clean)
		played[i].Server, played[i].Tool = targets[i].Server, targets[i].Tool
		if targets[i].sink {
			at.calls = append(at.calls, targets[i].Call)
		}
	}
	var made []*Made
	if s.why != "" { // in parallel with the cause of the end: the calls now would be only a part of all calls
		return p.endAll(played, targets)
	}
	if at.calls != nil {
		at.at = place{path: p.path, index: p.sinks}
		p.sinks++
		if made = s.wait(at); made == nil {
			return p.endAll(played, targets)
		}
	}
	blanked := false
	for i := range targets {
		t := &targets[i]
		if t.sink {
			t.made, made = made[0], made[1:]
		}
		if t.failed == nil && t.Server != abi.Composites { // before any of them is answered, as in register
			s.told[t.Server] = s.told[t.Server].with(&t.Call)
		}
	}
	for i := range targets {
		t := &targets[i]
		var given bool
		played[i].Answer, given = p.answer(t, clean)
		blanked = blanked || given
	}
	s.tainted = s.tainted || blanked
	for i := range targets {
		if targets[i].Server == abi.Composites && targets[i].failed == nil {
			p.child(&played[i], &targets[i], clean)
		}
	}
	return played
}

// target is a call of a shadow with the resolved tool.
type target struct {
	flow.Call
	sink   bool           // the tool is a sink for the label
	failed *abi.CallError // why the call cannot be made
	made   *Made          // the same call of the run; nil if unknown or missing
}

// target finds the tool of a call. A clean shadow makes the same calls as the run, in the same
// order.
func (p *Tape) target(c abi.ToolCall, clean bool) target {
	p.calls++
	var t target
	if clean {
		t.made = p.s.tree.call(p.path, p.calls)
	}
	if t.made != nil {
		t.Server, t.Tool = t.made.Server, t.made.Tool
	} else {
		t.Server, t.Tool, t.failed = p.s.tree.o.Resolve(c)
	}
	t.Arguments, t.Meta, t.Timeout, t.Raw = c.Arguments, p.s.tree.o.Join(p.meta, c.Meta), c.Timeout, c.Raw
	t.sink = t.failed == nil && t.Server != abi.Composites && p.s.tree.o.Rules.Sinks(t.Server, t.Tool).Has(p.s.label)
	return t
}

// call returns the call with the given number, from 1, of a run; nil if the run has not made the
// call.
func (t *Tree) call(path string, number int) *Made {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[path]
	if n == nil || len(n.calls) < number {
		return nil
	}
	return n.calls[number-1]
}

// endAll ends the shadow instead of answering a batch.
func (p *Tape) endAll(played []Played, targets []target) []Played {
	for i := range targets {
		played[i].Answer = p.end(&targets[i], "it was not let go on")
	}
	return played
}

// child prepares the run of a saved tool.
func (p *Tape) child(played *Played, t *target, clean bool) {
	tree := p.s.tree
	if p.tools == nil {
		p.tools = map[string]int{}
	}
	path := childPath(p.path, t.Tool, p.tools[t.Tool])
	p.tools[t.Tool]++
	if clean && t.made != nil {
		begin, answer, done := tree.began(path, t.made)
		if begin == nil { // the saved tool was not run
			if !done {
				answer = p.end(t, "a saved tool has no answer")
			}
			played.Answer = answer
			return
		}
		played.Begin = *begin
	} else {
		def, err := tree.o.Saved(t.Tool)
		if err != nil {
			played.Answer = journal.Answer{Err: &abi.CallError{Type: abi.ErrValidation, Server: t.Server, Tool: t.Tool, Message: err.Error()}}
			return
		}
		played.Begin = tree.o.Child(def, t.Arguments, t.Meta)
		played.Begin.Now, played.Begin.Seed = tree.Moment(path)
	}
	played.Tape = &Tape{s: p.s, path: path, meta: t.Meta}
}

// began returns the input of the run that answers a call; nil for none.
func (t *Tree) began(path string, m *Made) (begin *journal.Begin, answer journal.Answer, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nodes[path]; n != nil {
		begin = n.begin
	}
	return begin, m.answer, m.done
}

// Undo registers a compensation.
func (p *Tape) Undo(c abi.ToolCall) (server, tool string, failed *abi.CallError) {
	p.undos++
	if !p.s.tainted {
		if u, ok := p.s.tree.undo(p.path, p.undos); ok {
			return u.Server, u.Tool, u.Err
		}
	}
	return p.s.tree.o.Resolve(c)
}

func (t *Tree) undo(path string, number int) (journal.UndoRecord, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[path]
	if n == nil || len(n.undos) < number {
		return journal.UndoRecord{}, false
	}
	return n.undos[number-1], true
}

// Undoing notes that the script of the run has failed with the given class of error, and that the
// compensations follow.
func (p *Tape) Undoing(class abi.ErrorType) {
	p.s.failed = class
}

// Compensation answers a compensation, by real names.
func (p *Tape) Compensation(c abi.ToolCall, server, tool string) journal.Answer {
	s := p.s
	t := target{Call: flow.Call{Server: server, Tool: tool, Arguments: c.Arguments, Meta: s.tree.o.Join(p.meta, c.Meta), Timeout: c.Timeout, Raw: c.Raw}}
	t.sink = s.tree.o.Rules.Sinks(server, tool).Has(s.label)
	if s.why != "" {
		return p.end(&t, s.why)
	}
	s.told[server] = s.told[server].with(&t.Call)
	if !t.sink {
		return p.blank(&t, true)
	}
	at := arrival{at: place{p.path, p.sinks, true}, calls: []flow.Call{t.Call}, failed: s.failed}
	p.sinks++
	made := s.wait(at)
	if made == nil {
		return p.end(&t, "it was not let go on")
	}
	t.made = made[0]
	answer, _ := p.answer(&t, false)
	return answer
}
