// Package sandboxtest provides the real guest to tests of other packages. Only tests import
// sandboxtest.
package sandboxtest

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

var (
	guest     *sandbox.Sandbox
	guestOnce sync.Once
)

// Guest returns the real guest, compiled once for all tests of a package. The package must use Main
// as TestMain.
func Guest(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	guestOnce.Do(func() {
		guest = sandbox.New(sandbox.Options{CacheDir: guestcache.Dir(), Log: slog.New(slog.DiscardHandler)})
	})
	if err := guest.Err(); err != nil {
		t.Fatal(err)
	}
	return guest
}

// GuestWithin returns the same guest with a budget, for a single test.
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

// Main is a TestMain: Main runs the tests, closes their guest, and fails if goroutines are left.
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
