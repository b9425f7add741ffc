package compose_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestErrorsNameRows checks that the limits in errors of other packages are in the table.
func TestErrorsNameRows(t *testing.T) {
	errs := []limits.Reached{&wire.TooLargeError{}, &wire.TooLargeError{Budget: true}, &budget.TooLargeError{}}
	for _, l := range []sandbox.Limit{
		sandbox.LimitMemory, sandbox.LimitFuel, sandbox.LimitRecursion, sandbox.LimitCalls, sandbox.LimitArguments,
		sandbox.LimitAnswer, sandbox.LimitResult, sandbox.LimitQueue, sandbox.LimitTotalMemory,
	} {
		errs = append(errs, &sandbox.LimitError{Limit: l, Message: "too much"})
	}
	for _, err := range errs {
		if limits.Find(err.LimitName()) == nil {
			t.Errorf("%T: there is no limit %q", err, err.LimitName())
		}
	}
}

// TestDefaultsOfOthers checks that packages for use without a configuration have the same defaults.
func TestDefaultsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		limit     *limits.Limit
		elsewhere int64
	}{
		{limits.Message, wire.DefaultMaxMessage},
		{limits.Memory, sandbox.DefaultMemory},
		{limits.Fuel, sandbox.DefaultFuel},
		{limits.Calls, sandbox.DefaultCalls},
		{limits.Arguments, sandbox.DefaultArguments},
		{limits.Answer, sandbox.DefaultAnswer},
		{limits.Result, sandbox.DefaultResult},
		{limits.Logs, sandbox.DefaultLogs},
		{limits.Queue, sandbox.DefaultMaxQueued},
	} {
		if tt.limit.Default != tt.elsewhere {
			t.Errorf("%s is %d by default, elsewhere %d", tt.limit.Setting(), tt.limit.Default, tt.elsewhere)
		}
	}
	// The limits of a saved tool have the same lower bounds.
	if limits.Fuel.Least != tools.MinFuel || limits.Memory.Least != tools.MinMemory {
		t.Errorf("at least %d and %d, for a tool %d and %d", limits.Fuel.Least, limits.Memory.Least, tools.MinFuel, tools.MinMemory)
	}
	if limits.Parallel.Most != abi.MaxBatch {
		t.Errorf("max_parallel is at most %d, and a batch %d", limits.Parallel.Most, abi.MaxBatch)
	}
}
