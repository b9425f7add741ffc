// Package restrict is the last step before a confined server on Linux: a process that gives up
// rights and then becomes the server by execve. Neither the server nor a descendant can get the
// rights back. Package confine makes the profiles. Begin with Profile.
//
// The process is our own binary under the name Name, started by the supervisor (package subreaper).
// The init function of this package takes over before main, so the package works in every importing
// program. The process runs for each confined server, and the supervisor of every server imports
// the package, so the package imports little.
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
	ProfileFD = 3 // for reading the profile
	FailureFD = 4 // for writing a message about a failure
)

// Profile is the set of a server's rights and limits. Masks have the values of the kernel's headers
// (linux/landlock.h); a right that is not handled is not restricted.
//
// The supervisor starts the process with the path and the arguments of the server as arguments,
// with the server's environment, directory, and file descriptors 0, 1 and 2, and with two more: 3
// is a pipe with the profile, 4 a pipe for a message about a failure. Without a failure, execve
// closes pipe 4 without a message.
type Profile struct {
	HandledFiles, HandledPorts, Scoped uint64

	Files []File
	Ports []Port
	// Filter is a program for seccomp (struct sock_filter, in the machine's byte order);
	// empty for none.
	Filter []byte
	Limits []Limit

	// Memory is how many bytes the server and the server's descendants may use together, Processes
	// the limit on their number, threads included; 0: no limit. The supervisor enforces these
	// limits by a control group. Limits that the supervisor cannot enforce are left to the process:
	// as RLIMIT_DATA of each process, and as RLIMIT_NPROC.
	Memory, Processes uint64
}

// File grants rights to a file, or to a folder and everything below the folder.
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

// Strings returns the profile in the form for sending. If no path contains a zero byte, no string
// contains a zero byte.
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

// fields reads strings in order.
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

// Text returns the profile in the form that the process reads.
func (p *Profile) Text() string { return strings.Join(p.Strings(), "\x00") }
