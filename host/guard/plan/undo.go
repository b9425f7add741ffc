package plan

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

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
