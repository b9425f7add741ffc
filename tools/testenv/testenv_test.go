package testenv

import (
	"fmt"
	"testing"
)

// ending records how a test ends.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()          {}
func (e *ending) Skip(args ...any) { e.how = "skipped: " + fmt.Sprint(args...) }
func (e *ending) Fatalf(format string, args ...any) {
	e.how = "failed: " + fmt.Sprintf(format, args...)
	panic(e)
}

// TestLacks checks that nothing is skipped in CI but what the variable names.
func TestLacks(t *testing.T) {
	for _, c := range []struct{ ci, variable, want string }{
		{"", "", "skipped: no wheels"},
		{"false", "", "skipped: no wheels"},
		{"true", "", `failed: no wheels (in CI, this test must run, unless METATOOL_TEST_LACKS has the word "wheel")`},
		{"true", "wheels a", `failed: no wheels (in CI, this test must run, unless METATOOL_TEST_LACKS has the word "wheel")`},
		{"true", " a wheel ", "skipped: no wheels"},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv(Variable, c.variable)
		e := &ending{TB: t}
		func() {
			defer func() { _ = recover() }()
			Lacks(e, "wheel", "no %s", "wheels")
		}()
		if e.how != c.want {
			t.Errorf("%q, %q: %s", c.ci, c.variable, e.how)
		}
	}
	t.Setenv("CI", "true")
	e := &ending{TB: t}
	func() {
		defer func() { _ = recover() }()
		Program(e, "no-such-program")
	}()
	if e.how == "" {
		t.Error("a program that there is not is found")
	}
}
