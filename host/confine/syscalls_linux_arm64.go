package confine

import "golang.org/x/sys/unix"

// arch is the kernel's number of the processor; 0 without filters for the processor.
const arch = uint32(unix.AUDIT_ARCH_AARCH64)

// ownSyscalls returns the numbers of the system calls that only this processor has, by name.
func ownSyscalls() map[string]int {
	return map[string]int{
		"arch_specific_syscall": unix.SYS_ARCH_SPECIFIC_SYSCALL,
	}
}
