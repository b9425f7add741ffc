package confine

import "golang.org/x/sys/unix"

// setID are the mode bits that let other users execute a file with the rights of its owner.
const setID = unix.S_ISUID | unix.S_ISGID

// creates are the flags with which open uses its mode. O_TMPFILE includes O_DIRECTORY.
const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// fileConditions returns the conditions for system calls on files: what Landlock does not
// restrict.
func fileConditions() []condition {
	return []condition{
		{"open", opening(1, 2)},
		{"openat", opening(2, 3)},
		{"openat2", func(f *assembler) { f.result(missing) }}, // its flags are in memory; libraries then use openat
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

// opening refuses the access mode 3. It opens a file neither for reading nor for writing,
// which Landlock takes for no access at all, and grants for every file. But ioctl and fchmod
// work with the descriptor.
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

// withoutSetID refuses modes with which other users get the rights of ours: as they run the
// program, it is not confined.
func withoutSetID(mode int) func(*assembler) {
	return func(f *assembler) {
		f.argument(mode)
		f.when(unix.BPF_JSET, setID, refuse)
		f.result(allow)
	}
}
