package wire

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoWait writes to a pipe or socket without waiting for the reader. A nil *NoWait writes nothing. A
// NoWait must not be used concurrently, nor during another write.
type NoWait struct {
	conn syscall.RawConn
	call func(fd uintptr) // write, made once
	off  bool             // not possible on this system

	p []byte // the bytes for write
	n int    // how many bytes of p write has written
}

// NewNoWait returns a NoWait that writes to the file of w, a syscall.Conn, or nil if w has no pipe
// or socket.
func NewNoWait(w io.Writer) *NoWait {
	file, ok := w.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	waits := false // only pipes and sockets wait for a reader
	err = conn.Control(func(fd uintptr) {
		var stat unix.Stat_t
		kind := uint32(0)
		if unix.Fstat(int(fd), &stat) == nil {
			kind = stat.Mode & unix.S_IFMT
		}
		waits = kind == unix.S_IFIFO || kind == unix.S_IFSOCK
	})
	if err != nil || !waits {
		return nil
	}
	w2 := &NoWait{conn: conn}
	w2.call = w2.write
	return w2
}

// Write writes the part of p that needs no waiting, and returns its length. Write reports no
// errors: the next regular write of the rest does.
func (w *NoWait) Write(p []byte) (n int) {
	if w == nil || w.off || len(p) == 0 {
		return 0
	}
	w.p, w.n = p, 0
	if w.conn.Control(w.call) != nil { // w is closed
		w.n = 0
	}
	w.p = nil
	return w.n
}

// write makes one attempt, in blocking or non-blocking mode. The mode stays, since other processes
// may share the file.
func (w *NoWait) write(fd uintptr) {
	n, err := unix.Pwritev2(int(fd), [][]byte{w.p}, -1, unix.RWF_NOWAIT)
	switch err {
	case nil:
		w.n = n
	case unix.EAGAIN, unix.EINTR, unix.EPIPE:
	default: // the flag is unknown to this kind of file, to the kernel, or to a sandbox around us
		w.off = true
	}
}
