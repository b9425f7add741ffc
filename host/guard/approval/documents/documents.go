// Package documents keeps the documents of a queue of approvals: in a folder that the processes of
// a machine share ([Folder]), or in the store of a fleet ([Shared]). Begin with [Place] and
// [Documents], which the queue uses.
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

// Max is the largest number of documents of a kind.
const Max = 2000

// maxSize is the size of the largest document, in bytes.
const maxSize = 4 << 20

// Place is a store of documents. Concurrent use is safe, also by several processes.
type Place interface {
	// Secret returns 32 random bytes or more, which all processes with the Place have, and no
	// others. The bytes never change.
	Secret(ctx context.Context) ([]byte, error)
	// View calls f with documents, which f only reads.
	View(ctx context.Context, f func(Documents) error) error
	// Change calls f with documents, which f may change. No other process changes a document
	// between the read by f and the write or removal by f: f may be called again, from the
	// beginning.
	Change(ctx context.Context, f func(Documents) error) error
	// Fresh returns nil if a document, or its absence, is as View shows, and ErrChanged if View
	// will show a newer state soon. Fresh may ask other machines.
	Fresh(ctx context.Context, name Name) error
	// Changed returns a channel from which something is received, or which is closed, when
	// documents may have changed since the call of Changed.
	Changed() <-chan struct{}
	// Holder returns the name of this process, for calls that wait here. To be called from Change.
	Holder() (string, error)
	// Holds reports whether the process with a name still runs; false for "".
	Holds(name string) bool
	// Abandoned reports whether no call waits any longer in the process with a name, so that no
	// person should decide about its calls. Abandoned is false if the calls can be made again.
	Abandoned(name string) bool
	// Close declares: no call waits in this process any longer.
	Close()
}

// Documents are the documents of a Place at a moment. They must not be used after the function that
// was called with them.
type Documents interface {
	// IDs returns the ids of the documents of a kind.
	IDs(kind string) ([]string, error)
	// Read reads a document into v. The error is fs.ErrNotExist for an unknown name.
	Read(name Name, v any) error
	// Write replaces a document.
	Write(name Name, v any) error
	// Remove removes a document; a missing document is no error.
	Remove(name Name) error
	// Use removes a document. Of several callers in all processes, at most the first succeeds.
	Use(name Name) error
}

// Name is the name of a document.
type Name struct {
	Kind, ID string
}

func (n Name) String() string { return n.Kind + "/" + n.ID }

// ErrForged says that the writer of the document did not have the secret.
var ErrForged = errors.New("was changed by something else than mcp-metatool")

// ErrChanged says that the document has changed since the read.
var ErrChanged = errors.New("it was changed at the same time")

func missing(n Name) error { return fmt.Errorf("approvals: %s: %w", n, fs.ErrNotExist) }

func tooLarge(size int) error {
	return fmt.Errorf("approvals: %d bytes are too many for one (at most %d)", size, maxSize)
}
