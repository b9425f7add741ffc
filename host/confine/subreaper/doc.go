// Package subreaper is the process that runs between us and a stdio server on Linux, called the
// supervisor of the server in messages. The process ends all descendants of the server when we end,
// even by SIGKILL, when we ask, and when the server itself ends. This includes descendants outside
// the server's process group (setsid), and descendants with ended parents. (Package supervise is
// unrelated: supervise restarts upstreams.) Begin with run.
//
// The process is our own binary, started again under the name Name with a socket as file descriptor
// 3. The init function of this package takes over before main, so the package works in every
// importing program, tests included. The package imports little, to save time and memory.
package subreaper

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Name is argv[0] of the process.
const Name = "mcp-metatool-supervisor"

// Requests to the process, of a byte each.
//
// Over the socket the process first gets a Command. The process answers with frames. After Started,
// every received byte is a request; the end of the socket has the effect of Kill. When no
// descendant is left, the process exits.
//
// The server gets file descriptors 0, 1 and 2 of the process, which closes its own: no byte passes
// through the process. The process adopts orphans (PR_SET_CHILD_SUBREAPER) and reaps them, and so
// loses no descendant of the server.
//
// A confined server is started through another process, package restrict, which gives up rights and
// becomes the server. So the server has lost the rights before the first instruction, and this
// process keeps the rights for ending the server.
const (
	Terminate = 'T' // SIGTERM for the server's process group
	Kill      = 'K' // SIGKILL for all descendants
)

// Kinds of frames.
const (
	Started = 'S' // Value is the server's process id
	Failed  = 'E' // the server did not start: Value is the errno
	Refused = 'R' // the server could not be confined: Value bytes of text with the reason follow
	Exited  = 'X' // the server has ended: Value is the wait status
)

// FrameSize is the size of a frame in bytes.
const FrameSize = 5

// Frame is a message from the process.
type Frame struct {
	Kind  byte
	Value uint32
}

// Bytes returns the frame in the form for sending.
func (f Frame) Bytes() []byte {
	return binary.BigEndian.AppendUint32([]byte{f.Kind}, f.Value)
}

// ParseFrame is the inverse of Bytes.
func ParseFrame(b [FrameSize]byte) Frame {
	return Frame{Kind: b[0], Value: binary.BigEndian.Uint32(b[1:])}
}

// Command is the program to start; the fields are arguments of syscall.ForkExec. As for execve, no
// string contains a zero byte.
type Command struct {
	Path, Dir string
	Args, Env []string
	// Profile confines the server: restrict.Profile.Strings; nil: not confined.
	Profile []string
	// Temp is a folder to remove when no descendant is left; "": none.
	Temp string
}

// Bytes returns the command in the form for sending: the length, then the strings.
func (o Command) Bytes() []byte {
	fields := append([]string{o.Path, o.Dir, o.Temp, strconv.Itoa(len(o.Args)), strconv.Itoa(len(o.Profile))}, o.Args...)
	fields = append(append(fields, o.Profile...), o.Env...)
	text := strings.Join(fields, "\x00")
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// parseCommand is the inverse of Bytes, without the length.
func parseCommand(text string) (o Command, ok bool) {
	fields := strings.Split(text, "\x00")
	if len(fields) < 5 {
		return o, false
	}
	o = Command{Path: fields[0], Dir: fields[1], Temp: fields[2]}
	rest := fields[5:]
	for i, list := range []*[]string{&o.Args, &o.Profile} {
		n, err := strconv.Atoi(fields[3+i])
		if err != nil || n < 0 || n > len(rest) {
			return Command{}, false
		}
		*list, rest = rest[:n:n], rest[n:]
	}
	if len(o.Profile) == 0 {
		o.Profile = nil
	}
	o.Env = rest
	return o, true
}
