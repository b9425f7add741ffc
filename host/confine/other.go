//go:build !linux

package confine

import "runtime"

// Level describes what this machine can enforce.
func Level() string { return runtime.GOOS }

// Lacks returns what this machine cannot enforce of the settings: all of it.
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

// IsOptional reports whether a system call that is refused by default can be
// allowed without giving up the rest of the sandbox.
func IsOptional(string) bool { return false }

// IsRefused reports whether a system call is refused by default, whatever its arguments.
func IsRefused(string) bool { return false }
