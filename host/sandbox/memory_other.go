//go:build !unix

package sandbox

// newMemory makes memory of no size yet that may grow to limit bytes.
func newMemory(limit uint64) memory { return newHeapMemory(limit) }
