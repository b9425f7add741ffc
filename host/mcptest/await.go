package mcptest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// patience returns how long a test waits for what must happen: a minute, longer on a slow machine,
// which is much less than the time that go test has.
func patience() time.Duration { return testenv.Deadline(time.Minute) }

// Bounded returns the context of a test for waiting. It ends after patience, so that a test
// fails where it waits in vain.
func Bounded(t testing.TB) context.Context {
	patience := patience()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the test has waited for %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value from a channel. If there is none after patience, the test
// fails, and says what it has waited for.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	patience := patience()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case value := <-from:
		return value
	case <-late.C:
		t.Fatalf("%s: nothing after %v", what, patience)
		panic("unreachable")
	}
}
