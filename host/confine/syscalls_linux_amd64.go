package confine

import "golang.org/x/sys/unix"

// arch is the kernel's number of the processor; 0 without filters for the processor.
const arch = uint32(unix.AUDIT_ARCH_X86_64)

// ownSyscalls returns the numbers of the system calls that only this processor has, by name.
func ownSyscalls() map[string]int {
	return map[string]int{
		"open": unix.SYS_OPEN, "stat": unix.SYS_STAT, "lstat": unix.SYS_LSTAT, "poll": unix.SYS_POLL, "access": unix.SYS_ACCESS, "pipe": unix.SYS_PIPE,
		"select": unix.SYS_SELECT, "dup2": unix.SYS_DUP2, "pause": unix.SYS_PAUSE, "alarm": unix.SYS_ALARM, "fork": unix.SYS_FORK, "vfork": unix.SYS_VFORK,
		"getdents": unix.SYS_GETDENTS, "rename": unix.SYS_RENAME, "mkdir": unix.SYS_MKDIR, "rmdir": unix.SYS_RMDIR, "creat": unix.SYS_CREAT,
		"link": unix.SYS_LINK, "unlink": unix.SYS_UNLINK, "symlink": unix.SYS_SYMLINK, "readlink": unix.SYS_READLINK, "chmod": unix.SYS_CHMOD,
		"chown": unix.SYS_CHOWN, "lchown": unix.SYS_LCHOWN, "getpgrp": unix.SYS_GETPGRP, "utime": unix.SYS_UTIME, "mknod": unix.SYS_MKNOD,
		"uselib": unix.SYS_USELIB, "ustat": unix.SYS_USTAT, "sysfs": unix.SYS_SYSFS, "modify_ldt": unix.SYS_MODIFY_LDT, "_sysctl": unix.SYS__SYSCTL,
		"arch_prctl": unix.SYS_ARCH_PRCTL, "iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM, "create_module": unix.SYS_CREATE_MODULE,
		"get_kernel_syms": unix.SYS_GET_KERNEL_SYMS, "query_module": unix.SYS_QUERY_MODULE, "getpmsg": unix.SYS_GETPMSG, "putpmsg": unix.SYS_PUTPMSG,
		"afs_syscall": unix.SYS_AFS_SYSCALL, "tuxcall": unix.SYS_TUXCALL, "security": unix.SYS_SECURITY, "time": unix.SYS_TIME,
		"set_thread_area": unix.SYS_SET_THREAD_AREA, "get_thread_area": unix.SYS_GET_THREAD_AREA, "epoll_create": unix.SYS_EPOLL_CREATE,
		"epoll_ctl_old": unix.SYS_EPOLL_CTL_OLD, "epoll_wait_old": unix.SYS_EPOLL_WAIT_OLD, "epoll_wait": unix.SYS_EPOLL_WAIT, "utimes": unix.SYS_UTIMES,
		"vserver": unix.SYS_VSERVER, "inotify_init": unix.SYS_INOTIFY_INIT, "futimesat": unix.SYS_FUTIMESAT, "signalfd": unix.SYS_SIGNALFD,
		"eventfd": unix.SYS_EVENTFD, "uretprobe": unix.SYS_URETPROBE, "uprobe": unix.SYS_UPROBE,
	}
}
