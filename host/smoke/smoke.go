// Package smoke runs checks of MCP servers and composite tools. The checks are written in
// TOML files; docs/smoke.md describes the format.
//
//	file.go      File: reading a file, finding files
//	settings.go  [smoke], [profile.NAME] and [vars]
//	phase.go     the tables of checks; checks with values that are known only later
//	vars.go      what references {{NAME}} stand for
//	rows.go      rows: one check, many results
//	tags.go      tags, and which of them are wanted
//	check.go     Check: one [[check]], [[setup]] or [[teardown]]
//	capture.go   values that later checks refer to
//	mocks.go     answers in a check, or in the cassette that it names
//	wants.go     the expectations, and how they are read
//	wantlists.go expectations of lists and images
//	permissions.go what a script may call
//	decision.go  what policy decides about a call
//	answer.go    the answer to a check, and its parts
//	result.go    comparing an answer with the expectations
//	runner.go    Runner: many files, in order, several checks at a time
//	selection.go which checks of a file run
//	schedule.go  which check runs next
//	attempt.go   running one check
//	retry.go     running it again
//	list.go      Runner.List: what would run
//	snapshot.go  answers in files of their own
//	pointer.go   JSON pointers
//	runs.go      the records of the runs of scripts
//	served.go    the servers at the end of the checks
//	script.go    the composite tool of a check
//	live.go      a real host for the checks of a file
//	needed.go    which servers it starts
//	offline.go   what files from untrusted sources may do
//	rehearsal.go what a person would say to calls that policy asks for
//	mocked.go    running a script with answers from a cassette
//	server.go    a check of what a server offers
//	verifypins.go  servers that must be as they were pinned
//	cancel.go    a check of what the server does when its call is cancelled
//	ending.go    why a check ended early: timeout, cancel_after, failure
//	inputs.go    Inputs: the files that a check file depends on
//	record.go    recording the answers of servers in a cassette
//	update.go    writing the answers into the file as expectations
//	tomlvalue.go values as TOML
//	draft.go     Draft: a first file for servers; draftparams.go: the arguments in it
//
// Package report, below, has the output formats, host/smoke/expect the matchers, and host/guard/pins the
// definitions of servers in a file. Nothing here writes to the user's store: live checks run
// in a host with its own store.
package smoke

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
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

	line, column int // in the file; 0: of the check
}

func (e *BrokenError) Error() string { return e.Reason }

func (e *BrokenError) Unwrap() error { return e.Err }

func broken(err error, format string, args ...any) *BrokenError {
	return &BrokenError{Reason: fmt.Sprintf(format, args...), Err: err}
}

// brokenAt returns the error for a check that a problem with its file, as it is in this run,
// stops.
func brokenAt(p *config.Problem) *BrokenError {
	b := broken(p, "%s", p.Text)
	if _, key, ok := strings.Cut(p.Key, `": `); ok && key != "" { // without the name of the check
		b.Reason = key + ": " + p.Text
	}
	b.line, b.column = p.Line, p.Column
	return b
}
