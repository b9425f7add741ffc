package store

import (
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Errors that errors.Is finds. Those of a Store say what they are about, and why.
var (
	// ErrUnknown says that it is not known whether something was written, or will be.
	ErrUnknown = errors.New("it is not known whether it was written")
	// ErrUnavailable says that the store cannot be used now. Nothing was written.
	ErrUnavailable = errors.New("the store is not available")
	// ErrFull says that the store has no room. Nothing was written.
	ErrFull = errors.New("the store is full")
	// ErrNotFound says that there is no such document or blob.
	ErrNotFound = errors.New("it is not there")
	// ErrGone says that events have been removed, because they were too old or too many, or with
	// all that the store had.
	ErrGone = errors.New("events have been removed")
	// ErrMissing comes with ErrUnavailable: NATS is there, and not the streams of the fleet. If they
	// were lost, only people make them again.
	ErrMissing = errors.New("NATS does not have the streams of the fleet (bring them back from a backup, or make them, empty: mcp-metatool fleet init)")
	// ErrClosed says that the Store was closed. Nothing was written.
	ErrClosed = errors.New("the store is closed")
)

// ConflictError says that somebody else has written before. Nothing was written.
type ConflictError struct {
	What string // a log or document
	// Last is the last position of the log, as far as it is known; zero for a document.
	Last Position
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: was changed by somebody else (read it again)", e.What)
}

// FencedError says that a log belongs to a later owner. Nothing was written, and nothing will
// be with the fencing number that was used.
type FencedError struct {
	Log    string
	Number uint64 // that of the later owner, as far as it is known
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("log %s: has a later owner, with fencing number %d", e.Log, e.Number)
}

// NameError says why something cannot have a name.
type NameError struct {
	What, Name string
	Reason     string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s %q: its name %s", e.What, display.Clip(e.Name, 100), e.Reason)
}

// SizeError says that something is empty or too large.
type SizeError struct {
	What       string
	Size, Most int // in bytes
}

func (e *SizeError) Error() string {
	if e.Size == 0 {
		return e.What + ": is empty"
	}
	return fmt.Sprintf("%s: has %d bytes (at most %d)", e.What, e.Size, e.Most)
}

// CorruptError says that something is not what was written.
type CorruptError struct {
	What   string
	Reason string
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s: %s", e.What, e.Reason) }
