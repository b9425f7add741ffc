// Package smoke runs checks of MCP servers and composite tools. The checks are written in
// TOML files; docs/smoke.md describes the format.
//
//	file.go      File: reading a file, finding files
//	check.go     Check: one [[check]]
//	mocks.go     answers in a check, or in the cassette that it names
//	wants.go     the expectations, and how they are read
//	wantlists.go expectations of lists and images
//	answer.go    the answer to a check, and its parts
//	result.go    comparing an answer with the expectations
//	runner.go    Runner: many files, in order, several checks at a time
//	script.go    the composite tool of a check
//	live.go      a real host for the checks of a file
//	offline.go   what files from untrusted sources may do
//	mocked.go    running a script with answers from a cassette
//	server.go    a check of what a server offers
//	cancel.go    a check of what the server does when its call is cancelled
//	ending.go    why a check ended early: timeout, cancel_after, failure
//	inputs.go    Inputs: the files that a check file depends on
//	record.go    recording the answers of servers in a cassette
//	update.go    writing the answers into the file as expectations
//	tomlvalue.go values as TOML
//
// Packages below: lock (definitions of servers in a file), report (output formats). Package
// host/expect has the matchers. Nothing here writes to the user's store: live checks run in
// a host with its own store.
package smoke

import (
	"fmt"
	"time"
)

// The defaults of settings.
const (
	DefaultTimeout = 30 * time.Second
	DefaultStartup = time.Minute
)

// The bounds of durations in a file.
const (
	minTime = time.Millisecond
	maxTime = 24 * time.Hour
)

// BrokenError says why a check could not be carried out. The text is for people.
type BrokenError struct {
	Reason string
	Err    error // the cause, or nil
}

func (e *BrokenError) Error() string { return e.Reason }

func (e *BrokenError) Unwrap() error { return e.Err }

func broken(err error, format string, args ...any) *BrokenError {
	return &BrokenError{Reason: fmt.Sprintf(format, args...), Err: err}
}
