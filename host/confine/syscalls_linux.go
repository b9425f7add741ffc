package confine

import (
	"slices"
	"strings"
	"sync"
)

// forbiddenNames are system calls that are refused, with EPERM. Each of them gets at other
// processes, changes the machine, avoids the restrictions, or is a part of the kernel with a
// history of holes.
const forbiddenNames = `
	ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
	keyctl add_key request_key
	bpf perf_event_open userfaultfd
	io_uring_setup io_uring_enter io_uring_register
	mount umount2 move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr pivot_root chroot
	unshare setns
	kexec_load kexec_file_load init_module finit_module delete_module create_module reboot
	swapon swapoff sethostname setdomainname acct quotactl quotactl_fd vhangup syslog
	settimeofday clock_settime clock_adjtime adjtimex
	iopl ioperm modify_ldt uselib ustat sysfs _sysctl lookup_dcookie nfsservctl
	open_by_handle_at fanotify_init move_pages migrate_pages`

// sharedNames are also refused, but a server may have a use for them. They act on objects of other
// programs of the user, and the kernel cannot restrict them to some objects.
const sharedNames = `
	shmget shmat shmctl shmdt semget semctl semop semtimedop msgget msgctl msgsnd msgrcv
	mq_open mq_unlink
	chmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat
	setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr`

// nameOnly is refused with the name of a file, and allowed with a descriptor.
const nameOnly = "utimensat"

// IsRefused reports whether a system call is refused by default with any arguments.
func IsRefused(name string) bool {
	return name != "" && slices.Contains(strings.Fields(forbiddenNames+sharedNames), name)
}

// IsOptional reports whether a system call refused by default can be allowed without giving up the
// rest of the sandbox.
func IsOptional(name string) bool {
	return name == nameOnly || name != "" && slices.Contains(strings.Fields(sharedNames), name)
}

// SyscallName returns the name of a system call; "" if unknown.
func SyscallName(number int) string { return names()[number] }

var names = sync.OnceValue(func() map[int]string {
	names := map[int]string{}
	for name, number := range knownSyscalls() {
		names[number] = name
	}
	return names
})
