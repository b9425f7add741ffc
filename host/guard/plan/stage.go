package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// stage is the compose.Stage of a run. A stage first takes the steps of the plan that the run
// carries out, if any, and after the last step makes the next plan.
type stage struct {
	*Planner
	origin route.Origin
	record journal.Plan
	moment compose.Moment

	// applies is the plan that the run carries out; nil for none. steps are the steps of the
	// earlier plans and of applies, and answers are their answers, as far as known.
	applies *Plan
	steps   []Step
	answers []Answer
	at      int  // index of the next step
	fresh   bool // reads are made again
	allowed bool // a person has allowed the writes
	// results are the raw answers of made writes, by their number.
	results map[int][]byte

	// The content of the plan that the run makes.
	next        []Step
	nextAnswers []Answer
	used        map[string]string // digests of definitions, by tool
	writes      int               // of all plans
	open        *Open
	// left is why the next plan ends before its run; "" until the end. Of all later calls, only the
	// calls of leftIn, the batch of the call that ended the plan, are in the plan, since they are
	// made regardless of the outcome of the call. leftIn is 0 for none.
	left   string
	leftIn int64

	// stopped is why the run may make no more calls; nil before a stop.
	stopped error
	// differs reports: stopped is a difference from the plan.
	differs bool
}

var _ compose.Stage = (*stage)(nil)

// Plan implements compose.Stage.
func (s *stage) Plan() journal.Plan { return s.record }

// Moment implements compose.Stage.
func (s *stage) Moment() compose.Moment { return s.moment }

// applying reports whether steps remain of the plan that the run carries out.
func (s *stage) applying() bool { return s.at < len(s.steps) }

// Approved implements compose.Stage.
func (s *stage) Approved() bool { return s.allowed && s.stopped == nil && s.applying() }

// stop ends the run: no more calls can be made.
func (s *stage) stop(c *compose.StagedCall, class abi.ErrorType, err error) *abi.CallError {
	if s.stopped == nil {
		s.stopped = err
	}
	return c.Fail(class, display.ClipSize(err.Error(), maxMessage))
}

// maxMessage limits the message of a difference, in bytes.
const maxMessage = 4 << 10

// differ stops the run because of a step that is not in the plan.
func (s *stage) differ(c *compose.StagedCall, err error) *abi.CallError {
	s.differs = true
	return s.stop(c, abi.ErrPermission, err)
}

// Call implements compose.Stage.
func (s *stage) Call(ctx context.Context, c compose.StagedCall) journal.Answer {
	if s.stopped != nil {
		return journal.Answer{Err: c.Fail(abi.ErrPermission, "not made: "+s.stopped.Error())}
	}
	if failed := s.over(&c); failed != nil {
		return journal.Answer{Err: failed}
	}
	definition := s.cfg.Definition(c.Server, c.Tool)
	do := s.cfg.classify(c.Server, c.Tool, definition)
	if err := s.use(c.Server+"."+c.Tool, pins.Digest(definition)); err != nil {
		return journal.Answer{Err: s.differ(&c, err)}
	}
	switch {
	case s.applying():
		return s.carryOut(ctx, do, c)
	case s.applies != nil && s.applies.Open == nil:
		return journal.Answer{Err: s.differ(&c, fmt.Errorf("%s.%s is called after all steps of the plan, which is complete", c.Server, c.Tool))}
	case do == Read:
		return s.read(c)
	}
	return s.withhold(ctx, c)
}

// use notes the use of a tool. The error means: the tool's definition differs from the plan.
func (s *stage) use(tool, digest string) error {
	if s.applies != nil && s.applying() {
		i := slices.IndexFunc(s.applies.Permissions, func(p Permission) bool { return p.Tool == tool })
		switch {
		case i < 0:
			return fmt.Errorf("%s is called, which the plan does not use", tool)
		case s.applies.Permissions[i].Digest != digest:
			return fmt.Errorf("the definition of %s has changed since the plan was made", tool)
		}
	}
	s.used[tool] = digest
	return nil
}

// read makes a read for the next plan.
func (s *stage) read(c compose.StagedCall) journal.Answer {
	step, refs, failed := s.step(Read, &c)
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	if len(refs) > 0 {
		return journal.Answer{Err: s.leave(&c, fmt.Sprintf("%s.%s is a read, and its arguments have the answer of write %d", c.Server, c.Tool, refs[0]))}
	}
	answer := c.Make()
	if !known(answer) {
		return answer // the run ends
	}
	a := answerOf(answer)
	step.Answer = digestAs(Version, a)
	s.add(step, a)
	return answer
}

// known reports whether an answer can be repeated: the answer is from the server, or does not
// depend on the time of the call.
func known(a journal.Answer) bool {
	if a.Err == nil {
		return true
	}
	switch a.Err.Type {
	case abi.ErrTool, abi.ErrValidation, abi.ErrRuntime, abi.ErrTimeout:
		return true
	}
	return false
}

// withhold adds a write to the next plan.
func (s *stage) withhold(ctx context.Context, c compose.StagedCall) journal.Answer {
	step, _, failed := s.step(Write, &c)
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	if s.writes >= maxWrites {
		return journal.Answer{Err: s.leave(&c, fmt.Sprintf("a plan has at most %d writes", maxWrites))}
	}
	decision, err := s.cfg.Router.Preview(ctx, s.origin, c.Made)
	if err != nil {
		return journal.Answer{Err: s.stop(&c, abi.ErrPermission, err)}
	}
	if !decision.Plain() {
		step.Policy = decisionText(decision)
	}
	s.writes++
	step.Write = s.writes
	s.add(step, Answer{})
	if c.Caught {
		return journal.Answer{Err: s.leave(&c, fmt.Sprintf("the script handles a failure of write %d, so what comes next depends on whether it fails", s.writes))}
	}
	return journal.Answer{Value: fmt.Appendf(nil, "%q", fmt.Sprint(s.record.Marker, s.writes))}
}

// maxWrites limits the writes of a plan, which people read.
const maxWrites = 1000

func decisionText(d policy.Decision) string {
	text := string(d.Action)
	if d.Rule != "" {
		text += fmt.Sprintf(" (rule %q)", d.Rule)
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return display.ClipSize(text, maxMessage)
}

// add adds a step to the next plan.
func (s *stage) add(step Step, a Answer) {
	s.next = append(s.next, step)
	s.nextAnswers = append(s.nextAnswers, a)
}

// leave ends the next plan at a call.
func (s *stage) leave(c *compose.StagedCall, reason string) *abi.CallError {
	if s.left == "" {
		s.left, s.leftIn = reason, c.Batch
	}
	return c.Fail(abi.ErrWithheld, reason)
}

// over returns the error for a call after the end of the next plan: the answers in between are not
// known. A guest that goes on nevertheless learns nothing.
func (s *stage) over(c *compose.StagedCall) *abi.CallError {
	if s.left == "" || s.leftIn != 0 && c.Batch == s.leftIn {
		return nil
	}
	s.leftIn = 0 // the following calls are made after this call
	return c.Fail(abi.ErrWithheld, s.left)
}

// Left implements compose.Stage.
func (s *stage) Left(f *compose.Failure) {
	if s.open != nil { // of a saved tool that the script has called
		return
	}
	if s.left == "" {
		s.left = f.Message
	}
	s.leftIn = 0
	s.open = &Open{Reason: display.ClipSize(f.Message, maxMessage), Script: "?"}
	if p := f.Position; p != nil {
		s.open.Script, s.open.Line, s.open.Source = p.File, p.Line, display.ClipSize(p.Source, maxMessage)
	}
	if s.applying() && s.stopped == nil {
		s.differs = true
		s.stopped = fmt.Errorf("the script goes no further than step %d of %d: %s", s.at, len(s.steps), f.Message)
	}
}

// Finished implements compose.Stage.
func (s *stage) Finished() error {
	if s.left != "" && s.open == nil { // a guest that has gone on with something else
		s.open = &Open{Reason: display.ClipSize(s.left, maxMessage), Script: "?"}
	}
	if s.stopped == nil && s.applying() {
		s.differs = true
		s.stopped = fmt.Errorf("the script has ended before step %d of %d, %s", s.at+1, len(s.steps), s.steps[s.at].name())
	}
	return s.stopped
}

// Saved implements compose.Stage.
func (s *stage) Saved(c compose.StagedCall, def tools.Definition) *abi.CallError {
	if s.stopped != nil {
		return c.Fail(abi.ErrPermission, "not run: "+s.stopped.Error())
	}
	if s.left != "" {
		s.leftIn = 0
	}
	if failed := s.over(&c); failed != nil {
		return failed
	}
	if err := s.use("tools."+def.Name, def.Hash()); err != nil {
		return s.differ(&c, err)
	}
	return nil
}

// permissions returns the tools of the run, and of the plan that the run carries out.
func (s *stage) permissions() []Permission {
	all := maps.Clone(s.used)
	if s.applies != nil {
		for _, p := range s.applies.Permissions {
			all[p.Tool] = p.Digest
		}
	}
	list := []Permission{}
	for _, tool := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Permission{tool, all[tool]})
	}
	return list
}

// errNoAnswer is the error for a plan that can only be applied with its reads made again.
var errNoAnswer = errors.New("its answer was not kept with the plan (apply the plan with --fresh, where the read is made again and must have the same answer)")
