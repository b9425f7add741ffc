// Package documents keeps what belongs to a queue of approvals: in a folder that the processes
// of a machine share, or in the store of a fleet.
//
//	documents.go Place, Documents: what the queue needs
//	folder.go    Folder: files, and what protects them
//	holder.go    whether the process still runs in which a call waits
//	shared.go    Shared: the store of a fleet
//	changes.go   changing documents there, and using them up
//	view.go      the documents of a fleet as this process sees them
package documents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// The kinds of documents.
const (
	Queue      = "queue"      // calls that wait for a decision
	Remembered = "remembered" // decisions for later calls
)

// Max is how many documents of a kind there can be.
const Max = 2000

// maxSize is the size of the largest document, in bytes.
const maxSize = 4 << 20

// Place is where documents lie. It is safe for concurrent use, also by several processes.
type Place interface {
	// Secret returns 32 random bytes or more that all processes with the Place have, and
	// nobody else. They stay the same.
	Secret(ctx context.Context) ([]byte, error)
	// View calls f with documents, which f only reads.
	View(ctx context.Context, f func(Documents) error) error
	// Change calls f with documents, which f may change. Nobody else changes those that f
	// writes or removes between the time when f has read them and the time when it does: f may
	// be called again, from the beginning.
	Change(ctx context.Context, f func(Documents) error) error
	// Fresh returns nil if a document is as View shows it, also if it is not there, and
	// ErrChanged if View will show something else soon. It may ask other machines.
	Fresh(ctx context.Context, name Name) error
	// Changed returns a channel from which something is received, or which is closed, when
	// documents may have changed since the call of Changed.
	Changed() <-chan struct{}
	// Holder returns the name of this process, for calls that wait in it. It is called from
	// Change.
	Holder() (string, error)
	// Holds reports whether the process with that name still runs. There is none with the
	// name "".
	Holds(name string) bool
	// Abandoned reports whether nobody can wait any more in the process with that name, so
	// that nobody should decide about its calls. It is false if they can be made again.
	Abandoned(name string) bool
	// Close says that no call waits in this process any more.
	Close()
}

// Documents are the documents of a Place at one time. They must not be used after the function
// that was called with them.
type Documents interface {
	// IDs returns the ids of the documents of a kind.
	IDs(kind string) ([]string, error)
	// Read reads a document into v. The error is fs.ErrNotExist if there is none.
	Read(name Name, v any) error
	// Write replaces a document.
	Write(name Name, v any) error
	// Remove removes a document, if it is there.
	Remove(name Name) error
	// Use removes a document. Of all that use it, in all processes, one succeeds at most.
	Use(name Name) error
}

// Name is the name of a document.
type Name struct {
	Kind, ID string
}

func (n Name) String() string { return n.Kind + "/" + n.ID }

// ErrForged says that a document was not written by a process with the secret.
var ErrForged = errors.New("was changed by something else than mcp-metatool")

// ErrChanged says that a document is not what it was.
var ErrChanged = errors.New("it was changed at the same time")

func missing(n Name) error { return fmt.Errorf("approvals: %s: %w", n, fs.ErrNotExist) }

func tooLarge(size int) error {
	return fmt.Errorf("approvals: %d bytes are too many for one (at most %d)", size, maxSize)
}
