package confine

import "golang.org/x/sys/unix"

// setID are the mode bits that let other users execute a file with the rights of the file's owner.
const setID = unix.S_ISUID | unix.S_ISGID

// creates are the flags of open that make open use the mode. O_TMPFILE includes O_DIRECTORY.
const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// fileConditions returns the conditions for system calls on files that Landlock does not restrict.
func fileConditions() []condition {
	return []condition{
		{"open", opening(1, 2)},
		{"openat", opening(2, 3)},
		{"openat2", func(f *assembler) { f.result(missing) }}, // the flags are in memory; libraries fall back to openat
		{"creat", withoutSetID(1)},
		{"mknod", withoutSetID(1)},
		{"mknodat", withoutSetID(2)},
		{"fchmod", withoutSetID(1)},
		{"utimensat", func(f *assembler) { // by descriptor: without a name
			f.argument(1)
			f.unless(unix.BPF_JEQ, 0, refuse)
			f.load(offsetArgs + 8*1 + 4)
			f.unless(unix.BPF_JEQ, 0, refuse)
			f.result(allow)
		}},
	}
}

// opening refuses the access mode 3, which opens a file neither for reading nor for writing.
// Landlock takes mode 3 for no access at all, and grants the mode for every file. But ioctl and
// fchmod work with the descriptor.
func opening(flags, mode int) func(*assembler) {
	return func(f *assembler) {
		f.argument(flags)
		f.mask(unix.O_ACCMODE)
		f.when(unix.BPF_JEQ, unix.O_ACCMODE, noRight)
		f.argument(flags)
		f.unless(unix.BPF_JSET, creates, allow)
		withoutSetID(mode)(f)
	}
}

// withoutSetID refuses modes that give other users the rights of our user: a program run by another
// user is not confined.
func withoutSetID(mode int) func(*assembler) {
	return func(f *assembler) {
		f.argument(mode)
		f.when(unix.BPF_JSET, setID, refuse)
		f.result(allow)
	}
}
