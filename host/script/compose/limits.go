package compose

import (
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// limitTime is the name of the limit on wall-clock time, which the sandbox does
// not know.
const limitTime sandbox.Limit = "time"

// budget has the limits of a run: the limits of the configuration, or lower limits of the tool.
type budget struct {
	sandbox.Limits
	timeout time.Duration
	own     map[sandbox.Limit]bool // the tool's own
}

// ownLimits are the limits that a saved tool can have of its own, with the member of the
// definition. The configuration's limit is the ceiling.
var ownLimits = map[sandbox.Limit]string{
	sandbox.LimitFuel:   "limits.fuel",
	sandbox.LimitMemory: "limits.memory",
	limitTime:           "limits.timeout",
	sandbox.LimitCalls:  "limits.calls",
}

// settingOf returns the key of the configuration for a limit; "" for a fixed limit.
func settingOf(limit sandbox.Limit) string {
	if l := limits.Find(string(limit)); l != nil {
		return l.Setting()
	}
	return ""
}

// CheckLimits returns which of a tool's own limits are above the limits of the configuration. The
// pointers are relative to a definition. A run would only have the configuration's limits.
func (c *Composer) CheckLimits(l tools.Limits) []tools.Violation {
	var above []tools.Violation
	check := func(limit sandbox.Limit, pointer string, isAbove bool, got, most string) {
		if isAbove {
			above = append(above, tools.Violation{
				Pointer: pointer, Message: fmt.Sprintf("got %s, want at most %s (%s)", got, most, settingOf(limit)),
			})
		}
	}
	ceiling := c.cfg.Limits
	fuel := func(n uint64) string { return strconv.FormatUint(n, 10) }
	check(sandbox.LimitFuel, "/limits/fuel", l.Fuel > ceiling.Fuel, fuel(l.Fuel), fuel(ceiling.Fuel))
	check(sandbox.LimitMemory, "/limits/memory", l.Memory > ceiling.Memory, units.FormatSize(l.Memory), units.FormatSize(ceiling.Memory))
	check(limitTime, "/limits/timeout", l.Timeout > c.cfg.Timeout, units.FormatDuration(l.Timeout), units.FormatDuration(c.cfg.Timeout))
	check(sandbox.LimitCalls, "/limits/calls", l.Calls > ceiling.Calls, strconv.Itoa(l.Calls), strconv.Itoa(ceiling.Calls))
	return above
}

// budget returns the budget of a run of a tool with the given limits.
func (c *Composer) budget(l tools.Limits) budget {
	b := budget{Limits: c.cfg.Limits, timeout: c.cfg.Timeout, own: map[sandbox.Limit]bool{}}
	b.own[sandbox.LimitFuel] = tighten(&b.Fuel, l.Fuel)
	b.own[sandbox.LimitMemory] = tighten(&b.Memory, l.Memory)
	b.own[limitTime] = tighten(&b.timeout, l.Timeout)
	b.own[sandbox.LimitCalls] = tighten(&b.Calls, l.Calls)
	return b
}

// LimitsOf returns the effective limits of a run of a tool with the given limits.
func (c *Composer) LimitsOf(l tools.Limits) journal.Limits {
	b := c.budget(l)
	return b.record()
}

// record returns the limits for the journal.
func (b *budget) record() journal.Limits {
	return journal.Limits{
		Timeout: b.timeout, Memory: b.Memory, Fuel: b.Fuel,
		Calls: b.Calls, Arguments: b.Arguments, Answer: b.Answer, Result: b.Result, Logs: b.Logs,
	}
}

// tighten lowers a limit to the tool's own if set and lower, and reports whether the limit was
// lowered.
func tighten[T int | uint64 | time.Duration](limit *T, own T) bool {
	if own == 0 || own >= *limit {
		return false
	}
	*limit = own
	return true
}

// failure returns the failure for a limit reached by a run with outcome out.
func (b *budget) failure(met *sandbox.LimitError, out sandbox.Outcome) *Failure {
	var used uint64
	switch met.Limit {
	case sandbox.LimitMemory:
		used = out.Memory
	case sandbox.LimitFuel:
		used = out.Fuel
	case sandbox.LimitCalls:
		used = uint64(out.Calls)
	case sandbox.LimitTotalMemory:
		used = met.Used
	}
	f := &Failure{
		Type: abi.ErrResource, Message: limits.Explain(met),
		Limit: string(met.Limit), Value: float64(met.Value), Used: float64(used), Setting: settingOf(met.Limit),
	}
	if b.own[met.Limit] {
		f.Setting = ownLimits[met.Limit]
		f.Message = fmt.Sprintf("%s (%s)", met.Message, b.remedy(met.Limit))
	}
	return f
}

// remedy returns how to raise a limit that a tool can have of its own.
func (b *budget) remedy(limit sandbox.Limit) string {
	if b.own[limit] {
		return fmt.Sprintf("raise %s of the saved tool, at most to %s", ownLimits[limit], settingOf(limit))
	}
	return limits.Find(string(limit)).Remedy()
}

// timeoutFailure returns the failure for a run that did not end in time.
func (b *budget) timeoutFailure(what string, out sandbox.Outcome) *Failure {
	f := &Failure{
		Type: abi.ErrTimeout, Limit: string(limitTime), Value: b.timeout.Seconds(), Setting: limits.Time.Setting(),
		Message: fmt.Sprintf("%s longer than %v (%s)", what, b.timeout, b.remedy(limitTime)),
	}
	if b.own[limitTime] {
		f.Setting = ownLimits[limitTime]
	}
	if out.Queued >= b.timeout/10 {
		f.Queued = out.Queued.Seconds()
		f.Message = fmt.Sprintf("%s longer than %v, and waited %v of it for other scripts (%s, or %s)",
			what, b.timeout, out.Queued.Round(time.Millisecond), b.remedy(limitTime), limits.Concurrent.Setting())
	}
	return f
}

// addLimit adds the limit reported by a guest, if the guest enforces the limit: a guest is not
// trusted to report the host's limits.
func (f *Failure) addLimit(name string) {
	if l := limits.Find(name); l != nil && l.Key == "" && f.Limit == "" {
		f.Limit, f.Value = name, float64(l.Default)
	}
}
