//go:build !linux

package confine

import "runtime"

// Level returns the name of the system.
func Level() string { return runtime.GOOS }

// Lacks returns the settings that this machine cannot enforce: all of them.
func Lacks(*Settings) []string {
	return []string{"confining servers needs Linux"}
}

// Prepare fails, unless best effort is enough.
func Prepare(s *Settings, at Place) (*Plan, error) {
	lacks := Lacks(s)
	if !s.BestEffort || s.Trace != "" {
		return nil, &UnsupportedError{lacks, Level()}
	}
	return &Plan{Env: at.Env, Lacks: lacks}, nil
}

// Allows fails.
func (s *Settings) Allows(Place) (func(path string, writes, executes bool) bool, error) {
	return nil, &UnsupportedError{Lacks(s), Level()}
}

// IsOptional reports whether a system call refused by default can be allowed without giving up the
// rest of the sandbox.
func IsOptional(string) bool { return false }

// IsRefused reports whether a system call is refused by default with any arguments.
func IsRefused(string) bool { return false }
