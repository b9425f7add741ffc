//go:build !unix

package sandbox

// newMemory returns empty memory that may grow to limit bytes.
func newMemory(limit uint64) memory { return newHeapMemory(limit) }
