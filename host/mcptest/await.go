package mcptest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// patience returns how long a test waits for a necessary event: a minute, longer on a slow machine,
// much less than the time limit of go test.
func patience() time.Duration { return testenv.Deadline(time.Minute) }

// Bounded returns a context for waiting. The context ends after patience, so that a test fails
// where it waits in vain.
func Bounded(t testing.TB) context.Context {
	patience := patience()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the test has waited for %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value from a channel. If none arrives within patience, the test fails
// and names the expected value.
func Receive[T any](t testing.TB, wanted string, from <-chan T) T {
	t.Helper()
	patience := patience()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case value := <-from:
		return value
	case <-late.C:
		t.Fatalf("%s: nothing after %v", wanted, patience)
		panic("unreachable")
	}
}
