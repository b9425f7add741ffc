package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
	// differs reports that stopped is a difference from the plan.
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

// use notes the use of a tool. The error means that the tool's definition differs from the plan.
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

// Answer is the script's answer of a call.
type Answer struct {
	Value jsontext.Value `json:"value,omitempty"`
	Error *abi.CallError `json:"error,omitempty"`
}

func answerOf(a journal.Answer) Answer { return Answer{Value: a.Value, Error: a.Err} }

// isKnown reports whether a has an answer.
func (a Answer) isKnown() bool { return a.Value != nil || a.Error != nil }

func (a Answer) journal() journal.Answer { return journal.Answer{Value: a.Value, Err: a.Error} }

// step returns a call as a step. The error ends the plan there.
func (s *stage) step(do Do, c *compose.StagedCall) (step Step, refs []int, failed *abi.CallError) {
	step = Step{Do: do, Script: c.Made.Script, Server: c.Server, Tool: c.Tool, Raw: c.Raw}
	for _, part := range []struct {
		from []byte
		to   *jsontext.Value
	}{{c.Arguments, &step.Arguments}, {c.Meta, &step.Meta}} {
		var more []int
		var err error
		if *part.to, more, err = withRefs(part.from, s.record.Marker); err != nil {
			return step, nil, s.leave(c, fmt.Sprintf("the call of %s.%s cannot be planned: %v", c.Server, c.Tool, err))
		}
		refs = append(refs, more...)
	}
	return step, refs, nil
}

// carryOut takes the next step of the plan that the run carries out.
func (s *stage) carryOut(ctx context.Context, do Do, c compose.StagedCall) journal.Answer {
	i := s.at
	step := &s.steps[i]
	if err := s.matches(step, do, &c); err != nil {
		return journal.Answer{Err: s.differ(&c, err)}
	}
	var answer journal.Answer
	var failed *abi.CallError
	past := i < len(s.applies.Before)
	switch {
	case do == Read && s.fresh && !past:
		answer, failed = s.readAgain(i, c)
	case do == Read || past:
		if !s.answers[i].isKnown() {
			return journal.Answer{Err: s.differ(&c, fmt.Errorf("%s: %s.%s: %w", s.place(i), c.Server, c.Tool, errNoAnswer))}
		}
		answer = s.answers[i].journal()
	default:
		answer, failed = s.write(ctx, i, c)
	}
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	if do == Write && answer.Err == nil {
		if err := badJSON(answer.Value); err != nil {
			return journal.Answer{Err: s.stop(&c, abi.ErrPermission, fmt.Errorf("the answer of write %d: %w", step.Write, err))}
		}
		s.results[step.Write] = answer.Value
	}
	s.at++
	return answer
}

// write makes a write of the plan.
func (s *stage) write(ctx context.Context, i int, c compose.StagedCall) (journal.Answer, *abi.CallError) {
	if now := s.cfg.Now(); now.After(s.applies.Expires) { // the run may wait long for servers
		return journal.Answer{}, s.stop(&c, abi.ErrPermission, &ExpiredError{s.applies.ID, s.applies.Expires})
	}
	answer := c.Make()
	s.answers[i] = answerOf(answer)
	if answer.Err != nil && !c.Caught {
		// All later steps depend on this write.
		s.stopped = fmt.Errorf("write %d, %s.%s, has failed: %s", s.steps[i].Write, c.Server, c.Tool, answer.Err.Message)
	}
	return answer, nil
}

// readAgain makes a read of the plan again. The answer must be the same.
func (s *stage) readAgain(i int, c compose.StagedCall) (journal.Answer, *abi.CallError) {
	answer := c.Make()
	if !known(answer) {
		return answer, nil // the run ends
	}
	now := answerOf(answer)
	if digestAs(s.applies.Version, now) == s.steps[i].Answer {
		s.answers[i] = now
		return answer, nil
	}
	err := fmt.Errorf("%s: the answer of %s.%s has changed since the plan was made", s.place(i), c.Server, c.Tool)
	if before := s.answers[i]; before.isKnown() {
		if d, bad := (comparison{}).compare(wire.Marshal(before), wire.Marshal(now)); bad == nil && d != nil {
			err = fmt.Errorf("%w: %w", err, d)
		}
	}
	return journal.Answer{}, s.differ(&c, err)
}

// place names a step for readers.
func (s *stage) place(i int) string { return fmt.Sprintf("step %d of %d", i+1, len(s.steps)) }

// matches returns how a call differs from a step, nil for a match.
func (s *stage) matches(step *Step, do Do, c *compose.StagedCall) error {
	name := c.Server + "." + c.Tool
	was := fmt.Sprintf("%s is %s of %s by %s", s.place(s.at), step.Do, step.name(), step.Script)
	switch {
	case step.Server != c.Server || step.Tool != c.Tool || step.Do == Undo || step.Do == Commit || step.Script != c.Made.Script:
		return fmt.Errorf("%s, and the script makes %s of %s by %s", was, do, name, c.Made.Script)
	case step.Do != do:
		return fmt.Errorf("%s, and now the configuration says that it is %s", was, do)
	case step.Raw != c.Raw:
		return fmt.Errorf("%s, and now the script asks for another form of its answer (.raw)", was)
	}
	return s.sameArguments(step, was, c)
}

func (s *stage) sameArguments(step *Step, was string, c *compose.StagedCall) error {
	for _, part := range []struct {
		name         string
		planned, now []byte
	}{{"arguments", step.Arguments, c.Arguments}, {"meta", step.Meta, c.Meta}} {
		d, err := comparison{answer: s.result}.compare(part.planned, part.now)
		if err != nil {
			return fmt.Errorf("%s, and its %s cannot be compared: %w", was, part.name, err)
		}
		if d != nil {
			return fmt.Errorf("%s, with other %s: %w", was, part.name, d)
		}
	}
	return nil
}

// result returns the raw answer of a made write, nil for none.
func (s *stage) result(write int) []byte { return s.results[write] }

// isExpired returns an *ExpiredError if a plan is too old.
func (p *Plan) isExpired(now time.Time) error {
	if now.After(p.Expires) {
		return &ExpiredError{p.ID, p.Expires}
	}
	return nil
}

// Undo implements compose.Stage. While a plan is made, no compensation is registered: no write
// needs one.
func (s *stage) Undo(c compose.StagedCall) (registered bool, failed *abi.CallError) {
	if s.stopped != nil {
		return false, c.Fail(abi.ErrPermission, "not registered: "+s.stopped.Error())
	}
	if failed := s.over(&c); failed != nil {
		return false, failed
	}
	if err := s.use(c.Server+"."+c.Tool, pins.Digest(s.cfg.Definition(c.Server, c.Tool))); err != nil {
		return false, s.differ(&c, err)
	}
	if !s.applying() {
		if s.applies != nil && s.applies.Open == nil {
			return false, s.differ(&c, fmt.Errorf("undo of %s.%s after all steps of the plan, which is complete", c.Server, c.Tool))
		}
		step, _, failed := s.step(Undo, &c)
		if failed == nil {
			s.add(step, Answer{})
		}
		return false, failed
	}
	step := &s.steps[s.at]
	was := fmt.Sprintf("%s is %s of %s by %s", s.place(s.at), step.Do, step.name(), step.Script)
	if step.Do != Undo || step.Server != c.Server || step.Tool != c.Tool || step.Script != c.Made.Script {
		return false, s.differ(&c, fmt.Errorf("%s, and the script registers the undo of %s.%s by %s", was, c.Server, c.Tool, c.Made.Script))
	}
	if err := s.sameArguments(step, was, &c); err != nil {
		return false, s.differ(&c, err)
	}
	s.at++
	return true, nil
}

// Commit implements compose.Stage.
func (s *stage) Commit() bool {
	switch {
	case s.stopped != nil, s.left != "":
		return false
	case !s.applying():
		s.add(Step{Do: Commit}, Answer{})
		// Writes that were made can still be undone until the next plan is applied.
		return false
	case s.steps[s.at].Do != Commit:
		s.differs = true
		s.stopped = fmt.Errorf("%s is %s of %s, and the script drops its compensations (commit)", s.place(s.at), s.steps[s.at].Do, s.steps[s.at].name())
		return false
	}
	s.at++
	return true
}
