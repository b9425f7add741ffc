// Package smoke runs checks of MCP servers and composite tools that are written
// down in TOML files. docs/smoke.md describes the files for their authors.
//
//	file.go      File: reading one; which files there are
//	check.go     Check: one [[check]]
//	mocks.go     answers that a check brings along
//	wants.go     the expectations there are, read
//	wantlists.go those of lists and images
//	answer.go    what came back, and its parts
//	judge.go     holding an answer against expectations
//	runner.go    Runner: many files, in order, several checks at a time
//	script.go    the composite tool of a check
//	live.go      a real host for the checks of a file
//	offline.go   what files from untrusted sources may do
//	mocked.go    a check whose script gets its answers from a cassette
//	server.go    a check of what a server offers
//	cancel.go    a check of what the server does when its call is cancelled
//	ending.go    why a check ended early: timeout, cancel_after, failure
//	inputs.go    Inputs: the files that a check file depends on
//	record.go    a live run that becomes a cassette
//	update.go    answers become the new expectations, in the file's own text
//	tomlvalue.go values as TOML
//
// Packages below: expect (matchers), lock (definitions of servers in a file),
// report (formats of what was found). Nothing here writes to the user's store:
// live checks run in a host with a store of its own.
package smoke

import (
	"fmt"
	"time"
)

// The values of settings that are not set.
const (
	DefaultTimeout = 30 * time.Second
	DefaultStartup = time.Minute
)

// Bounds of times in a file.
const (
	minTime = time.Millisecond
	maxTime = 24 * time.Hour
)

// BrokenError says that a check could not be made. The text is for people.
type BrokenError struct {
	Reason string
	Err    error // cause, or nil
}

func (e *BrokenError) Error() string { return e.Reason }

func (e *BrokenError) Unwrap() error { return e.Err }

func broken(err error, format string, args ...any) *BrokenError {
	return &BrokenError{Reason: fmt.Sprintf(format, args...), Err: err}
}
