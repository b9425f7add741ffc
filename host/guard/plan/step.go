package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

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
