// Package report writes what smoke checks found, for people and for the tools
// of CI.
//
//	report.go     Result, File, Summary; Writer, New
//	text.go       readable lines with diffs
//	details.go    what is said of one check, for text, junit and github
//	tap.go        Test Anything Protocol, version 14
//	junit.go      JUnit XML as Jenkins, GitLab and GitHub's actions read it
//	json.go       one JSON document
//	github.go     workflow commands of GitHub Actions
//	markdown.go   the step summary of GitHub Actions
//
// What servers answered is hostile: no format lets it write control
// characters to a terminal, end an XML section or give a command to a runner.
package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
)

// Status is how a check ended.
type Status string

// The ways in which a check can end.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
	// Broken is a check that could not be made: its server did not start, its
	// recording is missing.
	Broken Status = "broken"
)

// Result is one check's end.
type Result struct {
	Name, File   string
	Line, Column int // of the check in File, from 1; 0 is unknown
	Status       Status
	// Problems say why a check failed, is broken or (the Message of the first)
	// is skipped.
	Problems []Problem
	Duration time.Duration
	Logs     []string // of the script or the server, in order
	Output   string   // what the call answered, clipped by the caller
}

// Problem is one thing that was not as expected.
type Problem struct {
	What    string // the expectation, e.g. "expect.text"; "" for none
	Path    string // where in the answer, e.g. "$.a[2].b"; "" for the whole
	Message string // what is wrong; one sentence
	// Want and Got are both sides, clipped; "" when Message says all.
	Want, Got string
	// Diff is a unified diff from want to got; "" for none.
	Diff         string
	Line, Column int // of the expectation in the check's file; 0 is unknown
}

// Of is the problem that an expectation called what was not met.
func Of(what string, m *expect.Mismatch) Problem {
	return Problem{What: what, Path: m.Path, Message: m.Message, Want: m.Want, Got: m.Got, Diff: m.Diff}
}

// File is a file of checks with all its results.
type File struct {
	Path    string
	Results []Result
	// Err says that the file could not be run: it is wrong, or the
	// configuration is. It may be several, joined; a *config.Problem tells
	// its place.
	Err      error
	Duration time.Duration
}

// Summary counts.
type Summary struct {
	Passed, Failed, Skipped, Broken int
	Files                           int
	BadFiles                        int           // of them, those with an Err
	Duration                        time.Duration // of the whole run, by the clock
}

// Add counts a file. Duration is left to the caller, since files can run at
// once.
func (s *Summary) Add(f File) {
	s.Files++
	if f.Err != nil {
		s.BadFiles++
	}
	for _, r := range f.Results {
		switch r.Status {
		case Passed:
			s.Passed++
		case Skipped:
			s.Skipped++
		case Broken:
			s.Broken++
		default:
			s.Failed++
		}
	}
}

// Checks is the number of checks.
func (s Summary) Checks() int { return s.Passed + s.Failed + s.Skipped + s.Broken }

// ExitCode is that of a command: 0 when nothing failed, 2 when a file is
// wrong, else 1.
func (s Summary) ExitCode() int {
	switch {
	case s.BadFiles > 0:
		return 2
	case s.Failed+s.Broken > 0:
		return 1
	}
	return 0
}

// Writer writes results in one format. It is used by one goroutine at a time:
// each Result as soon as it is known, the File when all of its results were
// given (File.Results holds them again), Close at the end. Results of different
// files may be mixed. The first error of writing is kept and returned by all
// later calls.
type Writer interface {
	Result(r Result) error
	File(f File) error
	Close(s Summary) error
}

// Formats are the names that New knows; the first is the default.
var Formats = []string{"text", "tap", "junit", "json", "github"}

// Options of a Writer. The zero value is that of a command.
type Options struct {
	// Getenv reads the environment: NO_COLOR, TERM, GITHUB_STEP_SUMMARY,
	// GITHUB_WORKSPACE. Nil is os.Getenv.
	Getenv func(string) string
	// Verbose shows output and logs of checks that passed too, where the format
	// is for people.
	Verbose bool
	// Color forces colours on; else text has them on a terminal without
	// NO_COLOR.
	Color bool
}

// FormatError is a format that there is not.
type FormatError struct{ Format string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("unknown format %q (known: %s)", e.Format, strings.Join(Formats, ", "))
}

// New returns the Writer of a format, which writes to w. The error is a
// [*FormatError]. The Writer does not close w.
func New(format string, w io.Writer, o Options) (Writer, error) {
	if !slices.Contains(Formats, format) {
		return nil, &FormatError{format}
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	out := &sink{w: w}
	switch format {
	case "tap":
		return &tapWriter{out: out}, nil
	case "junit":
		return &junitWriter{out: out}, nil
	case "json":
		return &jsonWriter{out: out}, nil
	case "github":
		return newGitHub(out, o), nil
	}
	return &textWriter{out: out, paint: painter(o.Color || hasColors(w, o.Getenv)), verbose: o.Verbose}, nil
}

// sink collects what one event writes, and keeps the first error.
type sink struct {
	bytes.Buffer
	w   io.Writer
	err error
}

// flush writes what was collected.
func (s *sink) flush() error {
	if s.err == nil && s.Len() > 0 {
		_, s.err = s.w.Write(s.Bytes())
	}
	s.Reset()
	return s.err
}
