// Package smoke runs checks of MCP servers and composite tools, written in TOML files;
// docs/smoke.md describes the format. Begin with [Load] ([File], [Check]), [Runner], and wants.go,
// which has the expectations; [Draft] writes a first file. Package report, below, has the output
// formats, host/smoke/expect the matchers, and host/guard/pins the definitions of servers in a
// file.
//
// Nothing here writes to the user's store: live checks run in a host with its own store.
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

// brokenAt returns the error for a check that a problem with its file stops in this run.
func brokenAt(p *config.Problem) *BrokenError {
	b := broken(p, "%s", p.Text)
	if _, key, ok := strings.Cut(p.Key, `": `); ok && key != "" { // without the name of the check
		b.Reason = key + ": " + p.Text
	}
	b.line, b.column = p.Line, p.Column
	return b
}
