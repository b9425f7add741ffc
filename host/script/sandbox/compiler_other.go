//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

// fillElsewhere does not know how to start another process on this system.
func (*compileCache) fillElsewhere(context.Context, Options) error { return errors.ErrUnsupported }
