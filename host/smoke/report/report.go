// Package report writes the results of smoke checks, for people and for CI tools: as text, TAP,
// JUnit XML, JSON, HTML, or for GitHub Actions. Begin with [Result], [File] and [Summary], and with
// [New], which returns a [Writer] for a format.
//
// Servers are not trusted: in no format can their text write control characters to a terminal, end
// an XML section, run a script in a page or give a command to a runner.
package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Status is the outcome of a check.
type Status string

// The outcomes of a check.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
	// Broken means that the check could not be carried out: its server did not start, or its
	// cassette is missing.
	Broken Status = "broken"
)

// Result is the result of a check.
type Result struct {
	Name, File   string
	Line, Column int // of the check in File, from 1; 0 if unknown
	// Phase is "setup" or "teardown" for a step before or after the checks of the file, and
	// "" for a check.
	Phase  string
	Tags   []string // in the order of the file
	Row    Row      // the row of the check; the zero Row for none
	Status Status
	// Attempts is how often the check was tried; 0 if not run.
	Attempts int
	// Problems are why a check failed or is broken. For a skipped check, the Message of the first
	// is the reason.
	Problems []Problem
	Duration time.Duration // of the last attempt
	Logs     []string      // of the script or the server, in order
	Output   string        // the answer to the call, clipped by the caller
	// Usage is the usage of a script; nil for other checks, or if not known.
	Usage *Usage
	// Run shows the calls of a script; nil for other checks, or if not known.
	Run *timeline.View
}

// Row is a row of the data table of a check.
type Row struct {
	Number int    // from 1; 0: no row
	Cells  []Cell // sorted by name
}

// Cell is a value in a row: a plain text unchanged, and any other value, or a text in the form of
// JSON, as JSON.
type Cell struct{ Name, Value string }

// String returns a line such as "row 2: a = 1, b = text"; "" for the zero Row.
func (r Row) String() string {
	if r.Number == 0 {
		return ""
	}
	var cells []string
	for _, c := range r.Cells {
		cells = append(cells, c.Name+" = "+c.Value)
	}
	return display.EscapeLine(strings.TrimSuffix(fmt.Sprintf("row %d: %s", r.Number, strings.Join(cells, ", ")), ": "))
}

// Usage is the resources that a script and its saved tools used.
type Usage struct {
	Fuel, Memory uint64 // units, and bytes
	Calls        uint64
}

// Problem is a difference between an answer and an expectation.
type Problem struct {
	Expectation string // the expectation, e.g. "expect.text"; "" for none
	Path        string // the place in the answer, e.g. "$.a[2].b"; "" for the whole
	Message     string // the problem; a sentence
	// Want and Got are both sides, clipped; "" if Message says everything.
	Want, Got string
	// Diff is a unified diff from want to got; "" for none.
	Diff         string
	Line, Column int // of the expectation in the check's file; 0 if unknown
}

// Of returns the problem for a mismatch of an expectation.
func Of(expectation string, m *expect.Mismatch) Problem {
	return Problem{Expectation: expectation, Path: m.Path, Message: m.Message, Want: m.Want, Got: m.Got, Diff: m.Diff}
}

// File is a file of checks with all its results.
type File struct {
	Path    string
	Results []Result
	// Err is set for a file that could not be run because the file or the configuration is wrong.
	// Err may be several errors, joined; a *config.Problem has a position.
	Err      error
	Duration time.Duration
	// Digest is the SHA-256 of the file in hexadecimal digits; "" if not known.
	Digest string
	// Servers are the upstreams of the checks, in order; none if no check has started them.
	Servers []Server
	// Stale are the snapshots of the file without a check.
	Stale []string
}

// Summary has the counts of a run.
type Summary struct {
	Passed, Failed, Skipped, Broken int
	Files                           int
	BadFiles                        int           // files with an Err
	Duration                        time.Duration // wall-clock time of the whole run
	// Coverage is the coverage of tools; nil if not requested.
	Coverage *Coverage
	Stale    []string // snapshots without a check
}

// Add counts a file. The file's Duration is not added, since files can run concurrently.
func (s *Summary) Add(f File) {
	s.Files++
	s.Stale = append(s.Stale, f.Stale...)
	s.Coverage.add(f.Servers)
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

// Checks returns the number of checks.
func (s Summary) Checks() int { return s.Passed + s.Failed + s.Skipped + s.Broken }

// ExitCode returns the exit code of the command: 0 if nothing failed, 2 if a file is wrong,
// else 1. Too little coverage is a failure.
func (s Summary) ExitCode() int {
	switch {
	case s.BadFiles > 0:
		return 2
	case s.Failed+s.Broken > 0 || s.Coverage.missed():
		return 1
	}
	return 0
}

// Writer writes results in a format, for a single goroutine at a time: Result is called as soon as
// a result is known, File when all results of a file were written (File.Results has them again),
// and Close at the end. Results of different files may be interleaved. The first write error is
// kept and returned by all later calls.
type Writer interface {
	Result(r Result) error
	File(f File) error
	Close(s Summary) error
}

// Formats are the formats of New. The first is the default.
var Formats = []string{"text", "tap", "junit", "json", "html", "github"}

// Options are the options of a Writer. The command uses the zero value.
type Options struct {
	// Getenv reads the environment: NO_COLOR, TERM, GITHUB_STEP_SUMMARY, GITHUB_WORKSPACE; nil:
	// os.Getenv.
	Getenv func(string) string
	// Verbose shows output and logs of passed checks too, in formats for people.
	Verbose bool
	// Color forces colours. Otherwise the text format uses them on a terminal, unless
	// NO_COLOR is set.
	Color bool
}

// FormatError reports an unknown format.
type FormatError struct{ Format string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("unknown format %q (known: %s)", e.Format, strings.Join(Formats, ", "))
}

// New returns a Writer for a format. The Writer does not close w. The error is a [*FormatError].
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
	case "html":
		return &htmlWriter{out: out, now: time.Now}, nil
	case "github":
		return newGitHub(out, o), nil
	}
	return &textWriter{out: out, paint: painter(o.Color || hasColors(w, o.Getenv)), verbose: o.Verbose}, nil
}

// sink collects the output of a call, and keeps the first error.
type sink struct {
	bytes.Buffer
	w   io.Writer
	err error
}

// flush writes the collected output.
func (s *sink) flush() error {
	if s.err == nil && s.Len() > 0 {
		_, s.err = s.w.Write(s.Bytes())
	}
	s.Reset()
	return s.err
}

// Server is an upstream at the end of a file's checks.
type Server struct {
	Name string // in the configuration
	// Product, Version and Protocol are from the server's handshake; "" without a handshake.
	Product, Version, Protocol string
	// Err is why the server's tools are not known; "" if they are.
	Err string
	// Tools are the tools visible to agents, in list order.
	Tools []Tool
}

// Tool is a tool of a server.
type Tool struct {
	Name   string // the server's own name
	Called bool   // by a check or its script
}

// Coverage counts the listed tools of servers that checks have called. A nil *Coverage counts
// nothing.
type Coverage struct {
	// Min is the least percentage of tools that must be called; 0 for none.
	Min float64
	// Servers are the servers of all files, in order. Servers of the same name are merged: a tool
	// is called if a check of any file has called the tool.
	Servers []Server
}

// add adds the servers of a file.
func (c *Coverage) add(servers []Server) {
	if c == nil {
		return
	}
	for _, s := range servers {
		i := slices.IndexFunc(c.Servers, func(have Server) bool { return have.Name == s.Name })
		if i < 0 {
			s.Tools = slices.Clone(s.Tools)
			c.Servers = append(c.Servers, s)
			continue
		}
		c.Servers[i].merge(s)
	}
}

// merge adds another file's knowledge of the server.
func (s *Server) merge(other Server) {
	if s.Err != "" || other.Err == "" {
		s.Product, s.Version, s.Protocol, s.Err = other.Product, other.Version, other.Protocol, other.Err
	}
	for _, t := range other.Tools {
		i := slices.IndexFunc(s.Tools, func(have Tool) bool { return have.Name == t.Name })
		if i < 0 {
			s.Tools = append(s.Tools, t)
		} else {
			s.Tools[i].Called = s.Tools[i].Called || t.Called
		}
	}
}

// Called returns how many of the tools were called.
func (s *Server) Called() int { return len(s.Tools) - len(s.Uncalled()) }

// Uncalled returns the names of the tools that were not called, in list order.
func (s *Server) Uncalled() []string {
	names := []string{}
	for _, t := range s.Tools {
		if !t.Called {
			names = append(names, t.Name)
		}
	}
	return names
}

// Count returns the number of tools, and how many of them were called.
func (c *Coverage) Count() (called, tools int) {
	for i := range c.Servers {
		called, tools = called+c.Servers[i].Called(), tools+len(c.Servers[i].Tools)
	}
	return called, tools
}

// Percent returns the percentage of called tools: 100 without any tools.
func (c *Coverage) Percent() float64 {
	called, tools := c.Count()
	if tools == 0 {
		return 100
	}
	return 100 * float64(called) / float64(tools)
}

// missed reports whether too few tools were called. A server with unknown tools could have any
// number of tools, so no percentage can be reached then.
func (c *Coverage) missed() bool {
	if c == nil || c.Min <= 0 {
		return false
	}
	unknown := func(s Server) bool { return s.Err != "" }
	return c.Percent() < c.Min || slices.ContainsFunc(c.Servers, unknown)
}

// String returns a line such as
//
//	coverage of tools: 3 of 4 (75%), and 80% is required
func (c *Coverage) String() string {
	called, tools := c.Count()
	line := fmt.Sprintf("coverage of tools: %d of %d (%s)", called, tools, percent(c.Percent()))
	if c.missed() {
		line += ", and " + percent(c.Min) + " is required"
	}
	return line
}

// lines describes the coverage of the server's tools.
func (s *Server) lines() []string {
	head := "  " + display.EscapeLine(s.Name) + ": " + s.state()
	left := s.Uncalled()
	if len(left) == 0 {
		return []string{head}
	}
	return append([]string{head + "; not called:"}, indented(left)...)
}

// state describes the tools of a server, such as "3 of 4 tools (75%)".
func (s *Server) state() string {
	if s.Err != "" {
		return "its tools are not known: " + display.EscapeLine(firstLine(s.Err))
	}
	one := Coverage{Servers: []Server{*s}}
	return fmt.Sprintf("%d of %s (%s)", s.Called(), count(len(s.Tools), "tool"), percent(one.Percent()))
}

// percent formats a percentage, never rounded up.
func percent(p float64) string {
	return strconv.FormatFloat(math.Floor(p*10)/10, 'f', -1, 64) + "%"
}
