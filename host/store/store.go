// Package store says what the program needs of the place where it keeps what several
// processes share: logs of events, small documents, and blobs. Package files keeps them in a
// folder, package jetstream in NATS JetStream, and package sealed encrypts what another Store
// keeps. Package storetest has the tests that every Store passes.
//
//	store.go    Store: the interface
//	values.go   positions, events, documents
//	name.go     names of logs and documents
//	errors.go   what can go wrong, and what is known then
//	address.go  where a store in NATS is
//	own.go      PutOwn: finding out whether something was written
//
// # Guarantees
//
// A log is a sequence of events, numbered from 1. An event is appended at one position or not
// at all: of several writers that append at the same position, one succeeds, and the others
// get a [*ConflictError]. Whoever reads a log gets its events in their order, each once.
//
// A document is replaced as a whole, and only if it is still the one that the writer has read.
// Whoever watches a collection gets the newest form of each document in the end, whatever
// happens to the connection. Forms that were replaced quickly may be left out. Nothing is
// guaranteed about the order of changes of two documents.
//
// There is no order between logs, documents and blobs, except for what one caller does one
// after the other: when a call has returned without an error, what it has written is there for
// every other process that begins a call afterwards. Only servers that are, or have just been,
// cut off from most others can still answer from before, for as long as they have not noticed;
// nothing is written that rests on that.
//
// # What is known after an error
//
// After a [*ConflictError], [*FencedError], ErrUnavailable or another error, nothing was
// written by that call, nor will be, with one exception: after ErrUnknown, alone or together with
// one of these, it was, or it was not, or it will be. How to find out is said with [Store.Append] and [Store.Put].
//
// # Ownership of bytes
//
// A Store does not keep or change the bytes that it is given. Bytes that it returns belong to
// the caller.
package store

import (
	"context"
	"iter"
)

// Store is safe for concurrent use by several goroutines, and what it keeps is by several
// processes. Every method ends when its context does.
type Store interface {
	// Append adds an event to a log, behind the position e.After, which is from the same
	// Store. The error is a [*ConflictError] if there is an event there already, and a
	// [*FencedError] if the log is fenced with a larger number than e.Fence.
	//
	// Append tries again by itself while ctx allows it. After ErrUnknown, call it again with
	// the same Entry: it succeeds if the event is there, whichever of the calls has written
	// it, so that it is never there twice. The ID makes the difference between the caller's
	// own event and one of somebody else with the same bytes. A [*ConflictError] or a
	// [*FencedError] without ErrUnknown settles it, too: no call with the Entry has written it,
	// nor will. ErrUnavailable and ErrFull are about the last call only. A [*ConflictError] with
	// ErrUnknown says that it can no longer be found out, since events have been removed. ErrGone
	// says that the log no longer has the event behind which this one was to be.
	Append(ctx context.Context, log string, e Entry) (Position, error)
	// Fence makes sure that only events with that fencing number, or a larger one, are
	// appended from now on, and returns the position of the last event. It does nothing if
	// the log is fenced with the number already. The error is a [*FencedError] if the log is
	// fenced with a larger number. After ErrUnknown, call it again. Since it changes the log,
	// it also settles what becomes of every Append before it.
	Fence(ctx context.Context, log string, number uint64) (Position, error)
	// Read yields the events behind a position, up to the last one that there is when Read
	// begins, or a later one. A log without events yields none. An error is the last that is
	// yielded; it is ErrGone if the events behind the position have been removed.
	Read(ctx context.Context, log string, after Position) iter.Seq2[Event, error]
	// Follow is Read, except that it waits for further events until ctx ends; then it just
	// ends. It waits, too, while the Store is not available. Other errors end it.
	Follow(ctx context.Context, log string, after Position) iter.Seq2[Event, error]
	// Logs yields the last event of each log, in no order.
	Logs(ctx context.Context) iter.Seq2[LastEvent, error]
	// Last returns the last event of a log. The error is ErrNotFound if it has none.
	Last(ctx context.Context, log string) (Event, error)
	// Whole returns ErrGone unless the beginning of a log is there.
	Whole(ctx context.Context, log string) error
	// Drop removes a log. Nobody may write to it any more, and no other log may get its name.
	Drop(ctx context.Context, log string) error

	// Get returns a document. The error is ErrNotFound if there is none.
	Get(ctx context.Context, key Key) (Document, error)
	// Put replaces the document if it has that version; "" means that there is none. It
	// returns the new version. The error is a [*ConflictError] if the document has another
	// version.
	//
	// After ErrUnknown, call Get. If the document has the new content, it was written. If it
	// still has the old version, that may change; put it again, which either succeeds or
	// fails for good. Callers whose documents can be equal and still differ in who wrote them
	// put an id into them. A [*ConflictError] with ErrUnknown says that somebody has replaced
	// the document since, and perhaps what this call has written.
	Put(ctx context.Context, key Key, old Version, data []byte) (Version, error)
	// Remove removes a document as Put replaces one.
	Remove(ctx context.Context, key Key, old Version) error
	// Documents yields the documents of a collection, in no order. Those that are changed at
	// the time are yielded in one of their forms. An error that comes with the Key of a
	// document is about that document only, which is damaged: whoever goes on gets the others.
	// Every other error is the last that is yielded.
	Documents(ctx context.Context, collection string) iter.Seq2[Document, error]
	// Watch yields each document of a collection, then a Change with nothing but Ready set,
	// and then what changes, until ctx ends; then it just ends. It waits while the Store is
	// not available. An error that comes with the Key of a document is about that document
	// only, as it is with Documents; other errors end it.
	Watch(ctx context.Context, collection string) iter.Seq2[Change, error]

	// PutBlob keeps a blob and returns its digest, from which only this Store can get it. The
	// same blob has the same digest. It can be put again at any time, also after ErrUnknown.
	PutBlob(ctx context.Context, data []byte) (Digest, error)
	// Blob returns a blob. What it returns has that digest. The error is ErrNotFound if there
	// is none, and a [*CorruptError] if it was changed.
	Blob(ctx context.Context, digest Digest) ([]byte, error)
	// DropBlob removes a blob, if it is there.
	DropBlob(ctx context.Context, digest Digest) error

	// Close ends all calls, which return ErrClosed, and releases what the Store uses.
	Close() error
}
