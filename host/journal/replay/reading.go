package replay

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// stopOf returns the point at which a run was ended from outside the script, or nil.
func stopOf(rec *journal.Record) *compose.Stop {
	if !rec.Done {
		return nil
	}
	waiting := slices.ContainsFunc(rec.Calls, func(c journal.CallRecord) bool { return !c.Undo && unanswered(&c) })
	failure := rec.Outcome.Failure
	limit, _ := wire.GetString(failure, "details", "limit")
	switch rec.Outcome.Error {
	case abi.ErrTimeout, abi.ErrCancelled:
		// If a call failed in this way without being caught, the script itself failed.
		for _, name := range []string{"server", "file"} {
			if _, ofScript := wire.Get(failure, "details", name); ofScript {
				return nil
			}
		}
	case abi.ErrTool:
		// A run ends during a call if the call may or may not have been made before the process
		// died, or if a server asks a different question than before.
		if _, ofScript := wire.Get(failure, "details", "file"); ofScript || !waiting {
			return nil
		}
	case abi.ErrResource:
		if limit != string(sandbox.LimitQueue) {
			return nil
		}
	default:
		return nil
	}
	return &compose.Stop{Fuel: recordedFuel(rec), Waiting: waiting}
}

// unanswered reports whether the run ended before the call was answered.
func unanswered(c *journal.CallRecord) bool {
	if !c.Done {
		return true
	}
	e := c.Answer.Err
	return e != nil && (e.Type == abi.ErrTimeout || e.Type == abi.ErrCancelled) && (e.Message == compose.NoAnswer || e.Message == compose.NotMade)
}

// recordedFuel returns the fuel of a recorded run itself, without nested runs. The outcome of a run
// without a parent includes nested runs; the outcome of a nested run does not.
func recordedFuel(rec *journal.Record) uint64 {
	if rec.Parent != nil {
		return rec.Outcome.Fuel
	}
	return withoutBelow(rec)
}

func withoutBelow(rec *journal.Record) uint64 {
	below := fuelBelow(rec)
	if below > rec.Outcome.Fuel {
		return 0 // the program does not write records of this form
	}
	return rec.Outcome.Fuel - below
}

func fuelBelow(rec *journal.Record) (sum uint64) {
	for i := range rec.Calls {
		if below := rec.Calls[i].Answer.Run; below != nil {
			sum += below.Outcome.Fuel + fuelBelow(below)
		}
	}
	return sum
}

// debugged reports whether failures have backtraces. Scripts can see the backtraces of called
// tools.
func debugged(rec *journal.Record) bool {
	return rec.Any(func(r *journal.Record) bool { _, ok := wire.Get(r.Outcome.Failure, "stack"); return ok })
}

// replayRun returns a run to replay, with a recording.
func (s *session) replayRun(rec *journal.Record, recording compose.Recording) *compose.ReplayRun {
	t := &compose.ReplayRun{Begin: s.begin(rec.Begin), Recording: recording, Failure: rec.Outcome.Failure, Stopped: stopOf(rec), Checked: rec.Outcome.Checked, Asks: rec.Outcome.Asks}
	// A run in doubt may also lack compensations of its calls.
	t.Orphan = t.Stopped != nil && (rec.Parent != nil || rec.Outcome.Error == abi.ErrTool)
	for i := range rec.Calls {
		t.Orphan = t.Orphan && !rec.Calls[i].Undo
	}
	return t
}
