// Package testenv knows the machine on which tests run: what it lacks, and how slow it is.
//
// It decides about tests that need what a machine may lack: a program, a right, or something of
// its kernel. Elsewhere such a test is skipped. In CI it fails, because skipped tests are not read
// there.
//
//	testenv.go     Lacks and Program
//	port.go        a port that stays free
//	deadline.go    Deadline and Quiet: how long tests wait
//	executable.go  Executable: a program of this module
//
// With it comes package watchdog, which fails tests that hang.
//
// Conditions that are known before, such as the operating system, are no matter of this package.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Variable is the name of the environment variable that has what the machine of CI cannot have,
// separated by spaces. Tests that need it are skipped there, too. .ci/run sets it, and says why.
const Variable = "METATOOL_TEST_LACKS"

// Lacks ends a test that needs what the machine lacks. what is its name in Variable, one word; the
// rest says why, as for fmt.Sprintf.
func Lacks(t testing.TB, what, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") == "true" && !slices.Contains(strings.Fields(os.Getenv(Variable)), what) {
		t.Fatalf("%s (in CI, this test must run, unless %s has the word %q)", why, Variable, what)
	}
	t.Skip(why)
}

// Program returns the path of a program that a test needs.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, name, "there is no %s here", name)
	}
	return path
}
