package mcptest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen: much longer than it takes on a
// slow machine with other work to do, and much less than the time that go test has.
const patience = time.Minute

// Bounded returns the context of a test for waiting. It ends after a minute, so that a test
// fails where it waits in vain.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the test has waited for %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value from a channel. If there is none after a minute, the test
// fails, and says what it has waited for.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
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
