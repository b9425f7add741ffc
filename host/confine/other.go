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
	if !s.BestEffort {
		return nil, &UnsupportedError{lacks, Level()}
	}
	return &Plan{Env: at.Env, Lacks: lacks}, nil
}
