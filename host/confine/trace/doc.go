// Package trace watches the system calls of a server, and makes a proposal for the server's sandbox
// from the calls and the refusals. Only `mcp-metatool sandbox` uses the package: a traced server is
// several times slower. Begin with Propose and Refusals.
//
// The tracer is a separate process, our own binary under the name Name, between the supervisor
// (package subreaper) and the server. The tracer starts the server, confined or not, and traces the
// server and all descendants (ptrace(2)), without privileges: a process may trace children. Only
// the kernel's answers count, so every layer of the sandbox is seen alike: Landlock, seccomp,
// limits.
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

// maxEvents is the size of the largest readable file of events, in bytes.
const maxEvents = 64 << 20

// Kind is the kind of a server's action.
type Kind string

// The kinds.
const (
	ReadFile    Kind = "read"    // Object is a file or folder
	WriteFile   Kind = "write"   // Object is a changed, created or removed file or folder
	ExecuteFile Kind = "execute" // Object is a program
	Connect     Kind = "connect" // Object is "tcp 127.0.0.1:443", "udp 127.0.0.1:53", "unix /run/x" or "unix @x"
	Listen      Kind = "listen"  // Object is likewise
	Socket      Kind = "socket"  // Object describes the socket: "inet stream"
	Call        Kind = "call"    // Object is the name of another system call that was refused, or would be by default
	Omitted     Kind = "omitted" // further events were not recorded; all other fields are empty
)

// Event is an action or a refusal of a server. The same event is written once.
//
// The tracer gets a folder that only we can enter. In the folder, the file confine.TraceProfile has
// the profile of a server to be confined, and the file EventsFile gets the events, as JSON lines.
type Event struct {
	Kind   Kind   `json:"kind"`
	Object string `json:"object"`
	// Errno is the name of the error, for example "EACCES"; "": the action was allowed.
	Errno string `json:"errno,omitempty"`
	// Call is the name of the system call.
	Call string `json:"call"`
	// Program is the name of the process.
	Program string `json:"program"`
	// Folder is set if the object is a folder.
	Folder bool `json:"folder,omitempty"`
}

// Read reads the events in the folder of a tracer; none if the tracer did not start. Other lines
// are left out.
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
