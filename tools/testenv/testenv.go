// Package testenv knows the machine on which tests run: its missing parts, and its speed. Begin
// with [Lacks], [Program], [Port], [Deadline] and [Quiet].
//
// A test that needs a program, a right, or a feature of the kernel is skipped on a machine without
// it, and fails in CI, where skipped tests are not read. Conditions known before, for example the
// operating system, are no matter of this package.
//
// Importing testenv imports package watchdog, which fails tests that hang.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Variable is the name of the environment variable for the parts that the machine of CI cannot
// have, separated by spaces. Tests in need of these parts are skipped in CI, too. .ci/run sets the
// variable, and says why.
const Variable = "METATOOL_TEST_LACKS"

// Lacks ends a test in need of a part that the machine lacks. The parameter what is the part's name
// in Variable, a single word; the other parameters say why, as for fmt.Sprintf.
func Lacks(t testing.TB, what, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") == "true" && !slices.Contains(strings.Fields(os.Getenv(Variable)), what) {
		t.Fatalf("%s (in CI, this test must run, unless %s has the word %q)", why, Variable, what)
	}
	t.Skip(why)
}

// Program returns the path of a program needed by a test.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, name, "there is no %s here", name)
	}
	return path
}
