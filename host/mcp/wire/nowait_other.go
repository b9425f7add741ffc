//go:build !linux

package wire

import "io"

// NoWait would write without waiting, but does not on this system.
type NoWait struct{}

// NewNoWait returns nil.
func NewNoWait(io.Writer) *NoWait { return nil }

// Write writes nothing.
func (w *NoWait) Write([]byte) int { return 0 }
