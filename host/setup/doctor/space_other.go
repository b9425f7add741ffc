//go:build !linux && !darwin && !windows

package doctor

import "errors"

// freeSpace is not known on these systems.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
