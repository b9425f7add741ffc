package timeline

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// failure is the error of a run, in the displayed form.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details struct {
		File   string
		Line   int
		Column int
		Source string
		// Violations are the violations of a schema.
		Violations []tools.Violation
	} `json:"details"`
	Stack string `json:"stack"`
}

// failureOf returns the failure of a run, nil if the run has not failed, or only asks.
func failureOf(rec *journal.Record) *failure {
	if !rec.Done || rec.Outcome.Asks || rec.Outcome.Error == "" {
		return nil
	}
	f := &failure{}
	if jsonvalue.Unmarshal(rec.Outcome.Failure, f) != nil || f.Type == "" { // an old or broken record
		*f = failure{Type: string(rec.Outcome.Error), Message: rec.Outcome.Message}
	}
	f.Type, f.Message, f.Stack = display.Text(f.Type), display.Text(f.Message), display.Text(f.Stack)
	return f
}

// maxViolations is how many violations are shown.
const maxViolations = 20

// violations returns a line for each violation of a schema.
func (f *failure) violations() []string {
	var lines []string
	for i, v := range f.Details.Violations {
		if i == maxViolations {
			return append(lines, fmt.Sprintf("and %d more", len(f.Details.Violations)-i))
		}
		lines = append(lines, display.Line(v.String(), 400))
	}
	return lines
}

// location returns the place of the error in the script, with the source line and a caret, or "".
func (f *failure) location() string {
	d := f.Details
	if d.Line <= 0 {
		return ""
	}
	text := fmt.Sprintf("at %s:%d:%d", display.Text(d.File), d.Line, d.Column)
	if d.Source == "" {
		return text
	}
	source := strings.Map(oneSpace, display.Text(d.Source))
	if d.Column < 1 || d.Column > 400 {
		return text + "\n  " + source
	}
	return text + "\n  " + source + "\n  " + strings.Repeat(" ", d.Column-1) + "^"
}

// oneSpace replaces tabs and newlines by spaces, which keeps the caret in the right column.
func oneSpace(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}
