package confine

// refusedNames are the system calls that are refused, with EPERM. None is needed by a
// server, and each either gets at other processes, changes the machine, avoids the
// restrictions, or is a part of the kernel with a history of holes.
const refusedNames = `
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
	open_by_handle_at fanotify_init move_pages migrate_pages
	shmget shmat shmctl shmdt semget semctl semop semtimedop msgget msgctl msgsnd msgrcv
	mq_open mq_unlink
	chmod fchmodat fchmodat2 chown lchown fchownat
	setxattr lsetxattr setxattrat removexattr lremovexattr removexattrat file_setattr`
