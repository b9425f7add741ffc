package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// The largest sizes that every Store accepts, in bytes. A Store accepts Slack more, for another
// one that changes what it keeps there.
const (
	MaxEvent    = 256 << 20
	MaxDocument = 16 << 20
	MaxBlob     = 256 << 20
	Slack       = 256
)

// Position is a place in a log: behind an event, or at the beginning. Positions are only from
// the Store that they are given to; the zero value is the beginning of any log.
type Position struct {
	// Number is that of the event, from 1; 0 is the beginning.
	Number uint64
	// Fence is the largest fencing number of the log up to there.
	Fence uint64
	// Mark is for the Store.
	Mark uint64
	// Link is for a Store that encrypts what another one keeps.
	Link [16]byte
}

// ID tells an event from all others.
type ID [16]byte

// NewID returns a random id.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String returns.
func ParseID(text string) (id ID, err error) {
	if n, err := hex.Decode(id[:], []byte(text)); err != nil || n != len(id) || len(text) != 2*len(id) {
		return ID{}, fmt.Errorf("%.40q is no id of an event", text)
	}
	return id, nil
}

// Entry is an event that is to be appended.
type Entry struct {
	After Position
	// Fence is the fencing number of the writer; 0 for a log that has one writer for ever.
	Fence uint64
	// ID must not be used for another event.
	ID   ID
	Data []byte // at least one byte, at most MaxEvent
}

// Event is an event of a log.
type Event struct {
	Position Position // behind the event; its Fence is that of the writer
	ID       ID
	Data     []byte
}

// LastEvent is the last event of a log.
type LastEvent struct {
	Log string
	Event
}

// Key is the name of a document.
type Key struct{ Collection, Name string }

func (k Key) String() string { return k.Collection + "/" + k.Name }

// Version tells the forms of a document apart. "" is that of a document that is not there.
// Forms with the same content may have the same version.
type Version string

// Document is a document as it was when it was read.
type Document struct {
	Key
	Version Version
	Data    []byte // at most MaxDocument
}

// Change is a document that has changed, or a document that was removed, or the end of what
// was there before.
type Change struct {
	// Document has Version "", and no Data, if the document was removed.
	Document
	// Ready says that everything that was there has been yielded. Nothing else is set then.
	Ready bool
}

// Digest is the SHA-256 of what a Store keeps for a blob, in lower-case hex.
type Digest string

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

// Check returns a [*NameError] if d cannot be a digest.
func (d Digest) Check() error {
	if len(d) != 2*sha256.Size {
		return &NameError{"blob", string(d), "is no SHA-256 in lower-case hex"}
	}
	for _, c := range []byte(d) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return &NameError{"blob", string(d), "is no SHA-256 in lower-case hex"}
		}
	}
	return nil
}
