//go:build !unix

package sandbox

// newMemory returns empty memory with room for limit bytes.
func newMemory(limit uint64) memory { return newHeapMemory(limit) }
