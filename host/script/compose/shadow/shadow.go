// Package shadow runs scripts a second time without labelled answers, and compares the calls
// (package flow has the labels). A Tree follows a run of a client, with the runs of saved tools
// inside. When the run comes to a call of a sink for one of the run's labels, shadows are replayed
// up to the same place, with the labelled answers blanked in four ways. The call may be made only
// if at least one shadow makes the same call there, and every other shadow does so or has crashed.
// Begin with Tree and Tree.Admit; docs/flow.md has the argument.
//
// A shadow is given nothing that depends on a labelled answer: blanks from schemas known before,
// answers to equal calls, and answers of tools that only read, as long as the server got the same
// calls from the shadow as from the run, and neither has written to the server.
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

// Session remembers data given to a session. A Session is safe for concurrent use.
type Session interface {
	// Label notes that the client was given labelled data.
	Label(flow.Labels)
	// Flag notes a denial, or a run that ended before its shadow did.
	Flag()
	// Flagged reports whether Flag was called.
	Flagged() bool
}

// Options of a Tree. Session, Keep, Ask and Event may be nil.
type Options struct {
	// Rules are the rules of the run. New sets their Definition, from the result of Definitions:
	// the definitions of tools at the time of the call.
	Rules       *flow.Rules
	Definitions func() func(server, tool string) []byte
	Session     Session
	Slots       *Slots
	// Owner has the Slots taken by the run.
	Owner any
	// Unknown is the reason why the labels of servers from earlier runs are not known; nil if they
	// are.
	Unknown error
	// Begin is the input of the run.
	Begin journal.Begin
	// Code are the labels of the script itself: of the session that has saved the script.
	Code flow.Labels
	// Planned is set for a run that makes or carries out a plan, which has no shadows: Planned
	// reports whether a person has allowed the current calls.
	Planned func() bool
	// Unsure reports that the run of a plan may have answers with unknown labels.
	Unsure bool
	// Play runs a shadow, with the world of tape, and returns the record, also if ctx ends.
	Play func(ctx context.Context, begin journal.Begin, tape *Tape) journal.Record
	// Resolve returns the real names for a call of a script. failed is the script's error for an
	// impossible call.
	Resolve func(call abi.ToolCall) (server, tool string, failed *abi.CallError)
	// Saved returns a saved tool.
	Saved func(name string) (tools.Definition, error)
	// Sources returns the code of saved tools that a script may call.
	Sources func(code string) []string
	// Targets returns the targets that a script may call, with the targets of saved tools; see
	// tools.Permissions. Without Targets, the targets are not known.
	Targets func(ctx context.Context) []string
	// Join returns the _meta of a call: the _meta of the request, with the script's additions.
	Join func(request, script []byte) []byte
	// Child returns the input of the run of a saved tool, without Now and Seed.
	Child func(def tools.Definition, params, meta []byte) journal.Begin
	// Seed returns a seed for random numbers that depends on the bits alone.
	Seed func(bits uint64) uint64
	// Make makes a call of a shadow, for the action flow.Shadow.
	Make func(ctx context.Context, call flow.Call) journal.Answer
	// Keep notes for later runs that a server was given data from labelled answers. Keep returns
	// once the note is kept.
	Keep func(ctx context.Context, server string, set flow.Labels) error
	// Event writes to the record of the run.
	Event func(journal.FlowRecord)
}

// Tree follows a run with the runs of saved tools inside. The methods are safe for concurrent use.
type Tree struct {
	o      Options
	defs   definitions
	ctx    context.Context // of the shadows
	cancel context.CancelFunc
	plays  sync.WaitGroup // the shadows

	active atomic.Uint32 // flow.Labels of the answers so far
	count  atomic.Int64  // shadows so far

	// judging makes one comparison at a time. A holder of judging may lock mu.
	judging sync.Mutex
	shadows [flow.NumLabels][]*shadow
	// lost is the reason why a label's calls are no longer compared: a differing call was made.
	lost    [flow.NumLabels]string
	gated   [flow.NumLabels]int  // calls to sinks for the label
	crowded [flow.NumLabels]bool // no room was left for shadows
	spent   time.Duration        // by shadows while the run waited
	denied  *Denial              // the first denial
	texts   string               // see flow.Literals; "" until needed
	targets *[]string            // see Options.Targets; nil until they are needed

	mu      sync.Mutex // a leaf; guards the following fields
	nodes   map[string]*node
	first   [flow.NumLabels]string          // the first source
	written [flow.NumLabels]map[string]bool // servers with data that depends on the label
	kept    map[string]flow.Labels          // the labels passed to Keep
	told    map[string]told                 // by server
}

// node has the calls of a run of the tree, in the order of the script.
type node struct {
	calls []*Made
	sinks [flow.NumLabels][]batch
	undos []journal.UndoRecord
	begin *journal.Begin // of a saved tool; nil until the run begins
	tools map[string]int // calls of saved tools so far
}

// batch are the calls of a batch to sinks for a label.
type batch struct {
	undo bool
	made []*Made
}

// Made is a call of the run.
type Made struct {
	flow.Call
	sinks    flow.Labels // labels for which the tool is a sink
	stale    flow.Labels // labels on which earlier data to the server may depend
	after    told        // digest of the server's calls up to the end of the call's batch
	child    string      // path of the answering run
	withheld bool        // the call is not made
	done     bool
	labels   flow.Labels // of the answer
	answer   journal.Answer
}

// Unmade returns a call about which nothing is decided yet.
func Unmade(c flow.Call) *Made { return &Made{Call: c} }

// Path returns the path of the run of a saved tool for the call; see Batch.Path. The path of a nil
// *Made is "".
func (m *Made) Path() string {
	if m == nil {
		return ""
	}
	return m.child
}

// New makes a Tree. The shadows end with Close, not with ctx.
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

// Saved notes the labels of the code of a saved tool before the tool runs. Nothing can be shown
// about the calls of the tool, since the shadows have the same code.
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

// Denied reports whether a call was denied, so that the run ends.
func (t *Tree) Denied() bool {
	if t == nil {
		return false
	}
	t.judging.Lock()
	defer t.judging.Unlock()
	return t.denied != nil
}

// Forget notes that the script does not run again: the process of a durable run has died while
// making compensations. The answers read before are no longer known, so that everything counts as
// labelled. ended reports that the run may have been ended by a denial.
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

// Expected returns the labels of a tool's next answer, as far as known before the answer.
func (t *Tree) Expected(server, tool string) flow.Labels {
	if t == nil {
		return 0
	}
	return t.o.Rules.Source(server, tool, nil)
}

// Shadows returns the number of shadows started.
func (t *Tree) Shadows() int64 { return t.count.Load() }

// activate makes labels active. source is the reason.
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

// childPath returns the path of the next run of a saved tool: the name, and the number of earlier
// calls of the tool in the same run.
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

// Undo notes that the script of the run with the given path has registered a compensation.
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
// active. Both depend only on the beginning of the run and the path. The seed has as many digits as
// other seeds, so that the run uses as much fuel as with another seed.
func (t *Tree) Moment(path string) (now int64, seed uint64) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d%s", t.o.Begin.Seed, path)
	return t.o.Begin.Now, t.o.Seed(h.Sum64())
}
