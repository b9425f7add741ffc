// Package restrict is the last step before a confined server on Linux: a process that
// takes away its own rights and then becomes the server by execve. What it has given up,
// neither the server nor a descendant can get back.
//
//	doc.go             Profile: what is taken away
//	restrict_linux.go  the process
//	landlock_linux.go  files, ports, signals: Landlock
//	limits_linux.go    resource limits and capabilities
//
// The process is our own binary under the name Name. The supervisor (package subreaper)
// starts it with the path and the arguments of the server as its own arguments, with the
// server's environment, directory, and file descriptors 0, 1 and 2, and with two more:
// 3 is a pipe with the profile, 4 a pipe for a message about what failed. If nothing
// fails, execve closes it, and no message was written.
//
// The init function of this package takes over before main, so it works in every
// program that imports the package. It runs for each confined server, and is imported
// by the supervisor of every server, so it imports as little as possible. Package
// confine makes profiles; nothing is decided here.
package restrict

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Name is argv[0] of the process.
const Name = "mcp-metatool-restrict"

// File descriptors of the process.
const (
	ProfileFD = 3 // the profile is read from it
	FailureFD = 4 // a message about what failed is written to it
)

// Profile is what a server may do. Masks have the values of the kernel's headers
// (linux/landlock.h); a right that is not handled is not restricted.
type Profile struct {
	HandledFiles, HandledPorts, Scoped uint64

	Files []File
	Ports []Port
	// Filter is a program for seccomp (struct sock_filter, in the machine's byte order);
	// empty for none.
	Filter []byte
	Limits []Limit

	// Memory is how many bytes the server and its descendants may use together, Processes
	// how many of them there may be, threads included; 0: no limit. The supervisor
	// enforces them by a control group. What it cannot enforce is left to the process:
	// as RLIMIT_DATA of each process, and as RLIMIT_NPROC.
	Memory, Processes uint64
}

// File grants rights to a file, or to a folder and everything below it.
type File struct {
	Path   string // absolute, without symbolic links
	Access uint64
}

// Port grants rights to a TCP port.
type Port struct {
	Number uint16
	Access uint64
}

// Limit is a resource limit, soft and hard (setrlimit(2)).
type Limit struct {
	Resource int
	Value    uint64
}

// Strings returns the profile as it is sent. None of the strings contains a zero byte if
// no path does.
func (p *Profile) Strings() []string {
	s := []string{
		number(p.HandledFiles), number(p.HandledPorts), number(p.Scoped), number(p.Memory), number(p.Processes),
		hex.EncodeToString(p.Filter), number(uint64(len(p.Files))), number(uint64(len(p.Ports))),
	}
	for _, f := range p.Files {
		s = append(s, f.Path, number(f.Access))
	}
	for _, port := range p.Ports {
		s = append(s, number(uint64(port.Number)), number(port.Access))
	}
	for _, l := range p.Limits {
		s = append(s, number(uint64(l.Resource)), number(l.Value))
	}
	return s
}

func number(n uint64) string { return strconv.FormatUint(n, 16) }

// Parse is the inverse of Strings.
func Parse(s []string) (*Profile, bool) {
	r := &fields{rest: s}
	p := &Profile{HandledFiles: r.number(), HandledPorts: r.number(), Scoped: r.number(), Memory: r.number(), Processes: r.number()}
	filter, err := hex.DecodeString(r.next())
	p.Filter = filter
	files, ports := r.number(), r.number()
	for ; files > 0 && !r.bad; files-- {
		p.Files = append(p.Files, File{r.next(), r.number()})
	}
	for ; ports > 0 && !r.bad; ports-- {
		p.Ports = append(p.Ports, Port{uint16(r.number()), r.number()})
	}
	for len(r.rest) > 0 && !r.bad {
		p.Limits = append(p.Limits, Limit{int(r.number()), r.number()})
	}
	return p, err == nil && !r.bad
}

// fields reads strings one after the other.
type fields struct {
	rest []string
	bad  bool
}

func (r *fields) next() string {
	if len(r.rest) == 0 {
		r.bad = true
		return ""
	}
	s := r.rest[0]
	r.rest = r.rest[1:]
	return s
}

func (r *fields) number() uint64 {
	n, err := strconv.ParseUint(r.next(), 16, 64)
	r.bad = r.bad || err != nil
	return n
}

// Text is the profile as the process reads it.
func (p *Profile) Text() string { return strings.Join(p.Strings(), "\x00") }
