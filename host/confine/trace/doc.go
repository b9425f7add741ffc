// Package trace watches the system calls of a server, to find out what it needs and what
// it is refused, and makes a proposal for its sandbox of that. It is for `mcp-metatool sandbox` only: a traced server is several times
// slower.
//
//	doc.go           Event, Read: what was seen
//	trace_linux.go   the tracer
//	calls_linux.go   what the system calls mean
//	memory_linux.go  arguments in the memory of the server
//	learn.go         Propose: what a server needs
//	collapse.go      files into folders
//	refused.go       Refusals: what a server was refused
//
// The tracer is a process of its own, our own binary under the name Name, between the
// supervisor (package subreaper) and the server. It starts the server, confined or not, and
// traces it and all of its descendants (ptrace(2)). It uses no privilege: a process may trace
// its children. What the kernel answers is what counts, so it is seen for every layer of the
// sandbox alike: Landlock, seccomp, limits.
//
// The tracer gets a folder that only we can enter. In it, the file
// confine.TraceProfile has the profile of a server that is to be confined, and the file
// EventsFile gets the events, as JSON, one a line.
package trace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Name is argv[0] of the tracer.
const Name = "mcp-metatool-trace"

// EventsFile is the file with the events, in the folder of a tracer.
const EventsFile = "events"

// maxEvents is the largest file of events that is read, in bytes.
const maxEvents = 64 << 20

// Kind says what a server wanted to do.
type Kind string

// The kinds.
const (
	ReadFile    Kind = "read"    // Object is a file or folder
	WriteFile   Kind = "write"   // Object is a file or folder that is changed, created or removed
	ExecuteFile Kind = "execute" // Object is a program
	Connect     Kind = "connect" // Object is "tcp 127.0.0.1:443", "udp 127.0.0.1:53", "unix /run/x" or "unix @x"
	Listen      Kind = "listen"  // Object is likewise
	Socket      Kind = "socket"  // Object describes the socket: "inet stream"
	Call        Kind = "call"    // Object is the name of another system call that was refused, or would be by default
	Omitted     Kind = "omitted" // there were more events than are recorded; it has nothing else
)

// Event is one thing that a server has done or was refused. The same event is written once.
type Event struct {
	Kind   Kind   `json:"kind"`
	Object string `json:"object"`
	// Errno is the name of the error, such as "EACCES"; "": it was allowed.
	Errno string `json:"errno,omitempty"`
	// Call is the name of the system call.
	Call string `json:"call"`
	// Program is the name of the process.
	Program string `json:"program"`
	// Folder says that the object is a folder.
	Folder bool `json:"folder,omitempty"`
}

// Read reads the events in the folder of a tracer; none if it did not start. Lines that are not events are
// left out.
func Read(ctx context.Context, dir string) ([]Event, error) {
	data, err := regular.Read(ctx, filepath.Join(dir, EventsFile), maxEvents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var events []Event
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
