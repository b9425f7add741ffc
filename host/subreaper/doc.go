// Package subreaper is a process between us and a stdio server on Linux, called
// the supervisor of that server in messages. It ends all descendants of the
// server, including those that left its process group (setsid) and those whose
// parents are gone: when we end, even by SIGKILL, when we ask for it, and when
// the server itself ends. It is not package supervise, which restarts upstreams.
//
//	doc.go              the protocol between us and the process
//	subreaper_linux.go  the process
//	tree_linux.go       its descendants
//	cgroup_linux.go     a control group for them, where we may have one
//
// The process is our own binary, started again under the name Name with a
// socket as file descriptor 3. It never gets to main: the package takes over
// when it is initialized. So it works in every program that imports it, tests
// included, and what that program initializes later costs it no time and no
// memory. For the same reason the package imports as little as possible.
//
// The server gets file descriptors 0, 1 and 2 of the process, which does not
// keep them: no byte passes through it. The process adopts orphans
// (PR_SET_CHILD_SUBREAPER), so that no descendant of the server is lost, and
// reaps them.
//
// Over the socket it first gets an Order, and answers with frames. After
// Started, every byte that it gets is one of the requests below; the end of the
// socket is the request Kill. When it has nothing left to end, it exits.
package subreaper

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Name is argv[0] of the process.
const Name = "mcp-metatool-supervisor"

// Requests, of one byte each.
const (
	Terminate = 'T' // SIGTERM for the server's process group
	Kill      = 'K' // SIGKILL for all descendants
)

// Kinds of frames.
const (
	Started = 'S' // Value is the server's process id
	Failed  = 'E' // the server did not start: Value is the errno
	Exited  = 'X' // the server has ended: Value is its wait status
)

// FrameSize is the size of a frame in bytes.
const FrameSize = 5

// Frame is a message of the process.
type Frame struct {
	Kind  byte
	Value uint32
}

// Bytes is the frame as it is sent.
func (f Frame) Bytes() []byte {
	return binary.BigEndian.AppendUint32([]byte{f.Kind}, f.Value)
}

// ParseFrame is the inverse of Bytes.
func ParseFrame(b [FrameSize]byte) Frame {
	return Frame{Kind: b[0], Value: binary.BigEndian.Uint32(b[1:])}
}

// Order says what to start, as syscall.ForkExec has it. No string has a zero
// byte in it, as everywhere in execve.
type Order struct {
	Path, Dir string
	Args, Env []string
}

// Bytes is the order as it is sent: its length, then the strings.
func (o Order) Bytes() []byte {
	fields := append([]string{o.Path, o.Dir, strconv.Itoa(len(o.Args))}, o.Args...)
	text := strings.Join(append(fields, o.Env...), "\x00")
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// parseOrder is the inverse of Bytes, without the length.
func parseOrder(text string) (o Order, ok bool) {
	fields := strings.Split(text, "\x00")
	if len(fields) < 3 {
		return o, false
	}
	n, err := strconv.Atoi(fields[2])
	if rest := fields[3:]; err == nil && n >= 0 && n <= len(rest) {
		return Order{Path: fields[0], Dir: fields[1], Args: rest[:n], Env: rest[n:]}, true
	}
	return o, false
}
