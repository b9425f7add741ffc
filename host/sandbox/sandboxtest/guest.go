// Package sandboxtest has the real guest for the tests of other packages. It is
// imported by tests only.
package sandboxtest

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
)

var (
	guest     *sandbox.Sandbox
	guestOnce sync.Once
)

// Guest is the real guest, compiled once for all tests of a package, whose
// TestMain must be Main.
func Guest(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	guestOnce.Do(func() { guest = sandbox.New(sandbox.Options{Log: slog.New(slog.DiscardHandler)}) })
	if err := guest.Err(); err != nil {
		t.Fatal(err)
	}
	return guest
}

// GuestWithin is the same guest under a budget, for a test.
func GuestWithin(t testing.TB, b *budget.Budget) *sandbox.Sandbox {
	t.Helper()
	s, err := Guest(t).Share(sandbox.Options{Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Main is a TestMain: it runs the tests, closes their guest, and fails if
// goroutines are left.
func Main(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

type suite struct{ m *testing.M }

// Run implements goleak.TestingM.
func (s suite) Run() int {
	code := s.m.Run()
	if guest != nil {
		if err := guest.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
