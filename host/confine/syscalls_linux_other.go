//go:build linux && !amd64 && !arm64

package confine

// arch is the kernel's number of the processor; 0: this processor has no filters.
const arch = uint32(0)

// knownSyscalls returns the numbers of all system calls by name: none.
func knownSyscalls() map[string]int { return nil }
