package timeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/display"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// failure is what is shown of the error that a run ended with.
type failure struct {
	Type    string
	Message string
	Details struct {
		File   string
		Line   int
		Column int
		Source string
		// Violations are those of a schema.
		Violations []tools.Violation
	}
	Stack string
}

// failureOf is nil for a run that has not failed.
func failureOf(rec *journal.Record) *failure {
	if !rec.Done || rec.Outcome.Error == "" {
		return nil
	}
	f := &failure{}
	if json.Unmarshal(rec.Outcome.Failure, f) != nil || f.Type == "" { // an old record, or a broken one
		*f = failure{Type: string(rec.Outcome.Error), Message: rec.Outcome.Message}
	}
	f.Type, f.Message, f.Stack = display.Text(f.Type), display.Text(f.Message), display.Text(f.Stack)
	return f
}

// maxViolations is how many violations are shown.
const maxViolations = 20

// violations are lines on what a schema says of a value.
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

// place is where in the script it happened, with the line and a caret; "" when
// that is not known.
func (f *failure) place() string {
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

// oneSpace keeps a caret in its place, whatever the width of a tab.
func oneSpace(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}
