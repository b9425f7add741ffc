// Package shadow runs scripts a second time without labelled answers, and compares what they
// send (package flow has the labels). A Tree follows one run of a client, with the runs of saved
// tools in it. When that comes to a call of a sink that cares about a label it has, shadows of it
// are replayed up to the same place, with the labelled answers blanked in four ways. The call may
// be made only if each shadow that has not crashed makes the same call there, and at least one
// does.
//
//	shadow.go  Tree, Options: what the run tells
//	batch.go   a batch of calls before it is made
//	judge.go   comparing the shadows with the run
//	player.go  one shadow: parked, and let go on
//	tape.go    the world of a shadow: its calls
//	answer.go  what a shadow is answered
//	told.go    what servers were told and asked
//	replace.go the shadow's calls in place of those of the run
//	finish.go  the labels of the result
//	definitions.go  the definitions of tools from before the first label
//	slots.go   Slots: how many shadows there may be
//	text.go    why a call was not made
//
// A shadow is given nothing that depends on a labelled answer: blanks from schemas that were
// known before, and the answers to calls that were found equal, or of tools that only read. The
// latter only as long as it has told and asked their server the same as the run, and neither has
// written to it. docs/flow.md has the argument.
package shadow

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Session remembers what a session was given. It is safe for concurrent use.
type Session interface {
	// Label notes that the client was given something with labels.
	Label(flow.Labels)
	// Flag notes a denial, or a run that ended before its shadow did.
	Flag()
	// Flagged reports whether there was one.
	Flagged() bool
}

// Options of a Tree. Session, Keep, Ask and Event may be nil.
type Options struct {
	// Rules are those of the run. New sets their Definition, from what Definitions returns:
	// the definitions of tools as they are when it is called.
	Rules       *flow.Rules
	Definitions func() func(server, tool string) []byte
	Session     Session
	Slots       *Slots
	// Owner has the Slots that the run takes.
	Owner any
	// Unknown says why it is not known which labels servers got in earlier runs; nil if it is.
	Unknown error
	// Begin is the input of the run.
	Begin journal.Begin
	// Code are the labels of the script itself: of the session that has saved it.
	Code flow.Labels
	// Planned is set for a run that makes or carries out a plan, which has no shadows: it reports
	// whether a person has allowed what it does now.
	Planned func() bool
	// Unsure says that such a run may have answers whose labels are not known.
	Unsure bool
	// Play runs a shadow, with the world of tape. It returns its record, also if ctx ends.
	Play func(ctx context.Context, begin journal.Begin, tape *Tape) journal.Record
	// Resolve returns the real names of what a script calls. failed is the error that the
	// script gets for a call that cannot be made.
	Resolve func(call abi.ToolCall) (server, tool string, failed *abi.CallError)
	// Saved returns a saved tool.
	Saved func(name string) (tools.Definition, error)
	// Sources returns the code of saved tools that a script may call.
	Sources func(code string) []string
	// Targets returns the targets that a script may call, with those of saved tools; see
	// tools.Permissions. Without it, they are not known.
	Targets func(ctx context.Context) []string
	// Join returns the _meta of a call: that of the request, with what the script adds.
	Join func(request, script []byte) []byte
	// Child returns the input of the run of a saved tool, without Now and Seed.
	Child func(def tools.Definition, params, meta []byte) journal.Begin
	// Seed returns a seed for random numbers that depends on the bits alone.
	Seed func(bits uint64) uint64
	// Make makes a call of a shadow, for the action flow.Shadow.
	Make func(ctx context.Context, call flow.Call) journal.Answer
	// Keep notes for later runs that a server was given what depends on labelled answers. It
	// returns once that is kept.
	Keep func(ctx context.Context, server string, set flow.Labels) error
	// Event writes to the record of the run.
	Event func(journal.FlowRecord)
}

// Tree follows a run with the runs of saved tools in it. Its methods are safe for concurrent use.
type Tree struct {
	o      Options
	defs   definitions
	ctx    context.Context // of the shadows
	cancel context.CancelFunc
	plays  sync.WaitGroup // the shadows

	active atomic.Uint32 // flow.Labels of the answers so far
	count  atomic.Int64  // shadows so far

	// judging makes one comparison at a time. Holding it, mu may be locked.
	judging sync.Mutex
	shadows [flow.NumLabels][]*shadow
	// lost says why a label's calls are not compared any more: a call that differs was made.
	lost    [flow.NumLabels]string
	gated   [flow.NumLabels]int  // calls to sinks that cared
	crowded [flow.NumLabels]bool // there was no room for shadows
	spent   time.Duration        // by shadows while the run waited
	denied  *Denial              // the first one
	texts   string               // see flow.Literals; "" until it is needed
	targets *[]string            // see Options.Targets; nil until they are needed

	mu      sync.Mutex // a leaf; guards what follows
	nodes   map[string]*node
	first   [flow.NumLabels]string          // the source that was first
	written [flow.NumLabels]map[string]bool // servers that were given what depends on the label
	kept    map[string]flow.Labels          // what Keep has been told
	told    map[string]told                 // by server
}

// node is what one run of the tree has done, in the order of its script.
type node struct {
	calls []*Made
	sinks [flow.NumLabels][]batch
	undos []journal.UndoRecord
	begin *journal.Begin // of a saved tool; nil until it begins
	tools map[string]int // calls of saved tools so far
}

// batch are the calls of a batch to sinks that care about a label.
type batch struct {
	undo bool
	made []*Made
}

// Made is a call of the run.
type Made struct {
	flow.Call
	sinks    flow.Labels // that care about it
	stale    flow.Labels // for which its server may have been told before what depends on them
	after    told        // what its server was told up to the end of its batch
	child    string      // path of the run that answers
	withheld bool        // it is not made
	done     bool
	labels   flow.Labels // of the answer
	answer   journal.Answer
}

// Unmade returns a call about which nothing is decided yet.
func Unmade(c flow.Call) *Made { return &Made{Call: c} }

// Path returns the path of the run of a saved tool that answers the call; see Batch.Path. A nil
// *Made has none.
func (m *Made) Path() string {
	if m == nil {
		return ""
	}
	return m.child
}

// New makes a Tree. Its shadows end with Close, not with ctx.
func New(ctx context.Context, o Options) *Tree {
	t := &Tree{o: o, nodes: map[string]*node{}, kept: map[string]flow.Labels{}, told: map[string]told{}}
	t.defs = definitions{now: o.Definitions, before: o.Definitions(), later: map[[2]string][]byte{}, given: map[string]bool{}}
	t.o.Rules.Definition = t.defs.of
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for i := range t.written {
		t.written[i] = map[string]bool{}
	}
	if o.Planned != nil {
		for i := range t.lost {
			t.lost[i] = "plans are not compared (have a person approve the plan, or call the tool without one)"
		}
	}
	if o.Unsure {
		t.activate(flow.Of(flow.Private, flow.Untrusted), "the plan has answers whose labels are not known")
	}
	t.Saved(o.Code)
	return t
}

const ofCode = "the script itself may depend on them (have a person read it, and then: mcp-metatool flow trust TOOL)"

// Saved notes the labels of the code of a saved tool that is about to run. Nothing can be shown
// about what it sends, since its shadows have the same code.
func (t *Tree) Saved(code flow.Labels) {
	if t == nil || code == 0 {
		return
	}
	t.judging.Lock()
	defer t.judging.Unlock()
	t.activate(code, "a saved tool was written in a session that had such answers")
	for _, l := range flow.AllLabels {
		if code.Has(l) && t.lost[l] == "" {
			t.lose(l, ofCode)
		}
	}
}

// Denied reports whether a call was not made, so that the run ends.
func (t *Tree) Denied() bool {
	if t == nil {
		return false
	}
	t.judging.Lock()
	defer t.judging.Unlock()
	return t.denied != nil
}

// Forget says that the script does not run again: the process of a durable run has died while it
// undid what it had done. What it had read is not known any more, so that everything counts as
// labelled. ended says that it may have been ended by a denial.
func (t *Tree) Forget(ended bool) {
	if t == nil {
		return
	}
	t.judging.Lock()
	defer t.judging.Unlock()
	t.activate(flow.Of(flow.Private, flow.Untrusted), "what the run had read before its process died is not known")
	for _, l := range flow.AllLabels {
		t.lose(l, "the process of the run has died while it undid what it had done")
	}
	if ended && t.denied == nil {
		t.denied = &Denial{Type: abi.ErrPermission, Message: "flow: the run was ended, and its process died while it undid what it had done"}
		t.event(journal.FlowRecord{What: journal.FlowDeny, Text: t.denied.Message})
	}
}

// Close ends the shadows and waits for them.
func (t *Tree) Close() {
	if t == nil {
		return
	}
	t.cancel()
	t.plays.Wait()
	t.judging.Lock()
	defer t.judging.Unlock()
	for i := range t.shadows {
		t.o.Slots.leave(t.o.Owner, len(t.shadows[i]))
		t.shadows[i] = nil
		if t.lost[i] == "" {
			t.lost[i] = "the run has ended"
		}
	}
}

// Active returns the labels of the answers so far.
func (t *Tree) Active() flow.Labels {
	if t == nil {
		return 0
	}
	return flow.Labels(t.active.Load())
}

// Expected returns the labels that an answer of a tool will have, as far as that is known before.
func (t *Tree) Expected(server, tool string) flow.Labels {
	if t == nil {
		return 0
	}
	return t.o.Rules.Source(server, tool, nil)
}

// Shadows returns how many shadows there were.
func (t *Tree) Shadows() int64 { return t.count.Load() }

// activate makes labels active. source says why.
func (t *Tree) activate(set flow.Labels, source string) {
	var added flow.Labels
	t.defs.freeze()
	t.mu.Lock()
	for _, l := range flow.AllLabels {
		if set.Has(l) && t.first[l] == "" {
			t.first[l] = source
			added |= flow.Of(l)
		}
	}
	t.active.Or(uint32(set))
	t.mu.Unlock()
	for _, l := range flow.AllLabels {
		if added.Has(l) {
			t.event(journal.FlowRecord{What: journal.FlowLabel, Label: l.String(), Text: source})
		}
	}
}

func (t *Tree) event(e journal.FlowRecord) {
	if t.o.Event != nil {
		t.o.Event(e)
	}
}

// node returns the node of a path. The caller holds mu.
func (t *Tree) node(path string) *node {
	n := t.nodes[path]
	if n == nil {
		n = &node{tools: map[string]int{}}
		t.nodes[path] = n
	}
	return n
}

// childPath returns the path of the next run of a saved tool: its name, and how many calls of it
// there were before in the same run.
func childPath(path, tool string, before int) string {
	return fmt.Sprintf("%s/%s#%d", path, tool, before)
}

// Answered notes the answer to a call.
func (t *Tree) Answered(m *Made, a journal.Answer) {
	if m == nil {
		return
	}
	var labels flow.Labels
	if m.Server != abi.Composites {
		labels = t.o.Rules.Source(m.Server, m.Tool, a.Meta)
	}
	t.mu.Lock()
	m.done, m.answer, m.labels = true, a, labels
	t.mu.Unlock()
	if labels != 0 {
		t.activate(labels, m.Server+"."+m.Tool+" has answered")
	}
}

// Undo notes that the script of the run with that path has registered a compensation.
func (t *Tree) Undo(path string, u journal.UndoRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node(path)
	n.undos = append(n.undos, u)
}

// Began notes the input of the run of a saved tool.
func (t *Tree) Began(path string, begin journal.Begin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node(path).begin = &begin
}

// Moment returns the time and the seed for the run of a saved tool that begins when a label is
// active. They depend on nothing but the beginning of the run and the path. The seed has as many digits
// as other seeds, so that the run uses as much fuel as with one.
func (t *Tree) Moment(path string) (now int64, seed uint64) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d%s", t.o.Begin.Seed, path)
	return t.o.Begin.Now, t.o.Seed(h.Sum64())
}
