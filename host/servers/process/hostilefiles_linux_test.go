package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func openat(path string, flags, mode uintptr) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	dir := unix.AT_FDCWD
	fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), flags, mode, 0, 0)
	if errno != 0 {
		return errno
	}
	return syscall.Close(int(fd))
}

func openat2(path string, flags uint64) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// own calls do with a new file of the server.
func own(o *order, do func(fd int) error) error {
	f, err := os.CreateTemp(o.Writable, "")
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

// locksTemp makes a folder with a file, in the folder for temporary files, which only
// root can remove.
func locksTemp() error {
	dir := os.TempDir() + "/locked"
	if err := os.MkdirAll(dir+"/deeper", 0o700); err != nil {
		return err
	}
	for _, path := range []string{dir + "/deeper", dir} {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = f.Chmod(0)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func futimens(fd int) error {
	return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0)
}

func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	if err == nil {
		f.Close()
	}
	return err
}

func movesOut(o *order) error {
	own := o.Writable + "/own"
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		return err
	}
	return os.Rename(own, o.Outside+"/own")
}

func exchanges(o *order) error {
	own := o.Writable + "/own"
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, own, unix.AT_FDCWD, o.Secret, unix.RENAME_EXCHANGE)
}

func executesOwn(o *order) error {
	own := o.Writable + "/program"
	if err := os.WriteFile(own, []byte("#!/bin/sh\n"), 0o700); err != nil {
		return err
	}
	return run(own)
}

// inheritedDescriptors looks for descriptors of our files.
func inheritedDescriptors(o *order) error {
	for fd := range 200 {
		target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && strings.HasPrefix(target, filepath.Dir(o.Outside)) {
			return errors.New(target)
		}
	}
	return nil
}

func openMany(n int) (err error) {
	var fds []int
	for len(fds) < n && err == nil {
		var fd int
		if fd, err = syscall.Open("/dev/null", syscall.O_RDONLY, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		syscall.Close(fd)
	}
	return err
}
