package compose

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Failure is an error as clients see it: a class, a message, and details.
type Failure struct {
	Type    abi.ErrorType
	Message string

	// The details; zero members are left out.

	Position     *abi.Position     // in the script
	Server, Tool string            // the failed call
	Upstream     []byte            // raw JSON: the server's details
	Limit        string            // the limit reached
	Value        float64           // of the limit: bytes, seconds, units of fuel or a number
	Used         float64           // the amount used or requested, in the same unit
	Setting      string            // raises the limit; "" for a fixed limit
	Queued       float64           // seconds of waiting for a slot, if the wait matters
	Fuel         uint64            // used by the run
	Violations   []tools.Violation // of a schema
	Nearest      []string          // names that may have been meant
	Compensation []undoOutcome     // the outcomes of the compensations of the run
	Run          string            // id of the run, where the log says more
	Reason       string            // the cause of the run's end, if a program should know the cause
	Data         []byte            // raw JSON: the details from the script's error
	Stack        string            // script backtrace; debug mode only

	recorded []byte // body as stored in a record; nil otherwise
}

// Error returns the message with the class.
func (f *Failure) Error() string { return string(f.Type) + " error: " + f.Message }

// addDetails adds the guest's details of an error, for example the position.
func (f *Failure) addDetails(e *abi.Error, debug bool) {
	if e == nil {
		return
	}
	f.Position, f.Data = e.Position, e.Details
	f.addLimit(e.Limit)
	if e.Call != nil {
		f.Server, f.Tool, f.Upstream = e.Call.Server, e.Call.Tool, e.Call.Details
		f.addLimit(e.Call.Limit)
	}
	if debug {
		f.Stack = e.Stack
	}
}

// Text returns the failure for readers: the message, the place with the source line, and each
// violation.
func (f *Failure) Text() string {
	var b strings.Builder
	b.WriteString(f.Error())
	if f.Position != nil {
		writePosition(&b, f.Position)
	}
	for i, v := range f.Violations {
		if i == maxShownViolations {
			fmt.Fprintf(&b, "\n  and %d more", len(f.Violations)-i)
			break
		}
		b.WriteString("\n  " + v.String())
	}
	for i, u := range f.Compensation {
		if i == maxShownViolations {
			fmt.Fprintf(&b, "\n  and %d more calls to undo what was done", len(f.Compensation)-i)
			break
		}
		if u.err == nil {
			fmt.Fprintf(&b, "\n  undone by %s", u.call())
		} else {
			fmt.Fprintf(&b, "\n  NOT undone by %s: %s", u.call(), display.ClipSize(u.err.Message, maxListedMessage))
		}
	}
	if f.Stack != "" {
		b.WriteString("\n" + f.Stack)
	}
	return b.String()
}

// maxShownViolations limits the violations in a failure's text; the details have all violations.
const maxShownViolations = 100

// maxListedMessage limits the message of a failed compensation, in bytes.
const maxListedMessage = 1 << 10

// maxSourceLine limits how much of a source line is shown, in code points.
const maxSourceLine = 160

func writePosition(b *strings.Builder, p *abi.Position) {
	fmt.Fprintf(b, "\n  at %s:%d:%d", p.File, p.Line, p.Column)
	if p.Source != "" {
		b.WriteString("\n" + Excerpt(p.Source, p.Column))
	}
}

// Excerpt returns a line of source with a caret under a column (from 1, in code points). Of a long
// line Excerpt shows only the part around the caret.
func Excerpt(source string, column int) string {
	var b strings.Builder
	line, column := []rune(source), max(1, column)
	if start := column - maxSourceLine/2; len(line) > maxSourceLine && start > 0 {
		start = min(start, len(line)-maxSourceLine)
		line, column = line[start:], column-start
	}
	line = line[:min(len(line), maxSourceLine)]
	fmt.Fprintf(&b, "    %s\n    ", string(line))
	for _, c := range line[:min(len(line), column-1)] {
		if c != '\t' { // keeps the caret in place with any width of tabs
			c = ' '
		}
		b.WriteRune(c)
	}
	b.WriteByte('^')
	return b.String()
}

// JSON returns the failure as an object: type, message, details, stack.
func (f *Failure) JSON() []byte { return f.body() }

// body returns {type, message, details, stack}.
func (f *Failure) body() []byte {
	if f.recorded != nil {
		return f.recorded
	}
	var details wire.Object
	if p := f.Position; p != nil {
		details.NonEmpty("file", p.File)
		details.NonZero("line", uint64(max(0, p.Line)))
		details.NonZero("column", uint64(max(0, p.Column)))
		details.NonEmpty("source", display.ClipSize(p.Source, 4*maxSourceLine*utf8.UTFMax))
	}
	details.NonEmpty("server", f.Server)
	details.NonEmpty("tool", f.Tool)
	if v, ok := wire.Get(f.Upstream, "violations"); ok && f.Type == abi.ErrValidation {
		details.Raw("violations", newInliner().value(v))
	} else if f.Upstream != nil {
		details.Raw("upstream", newInliner().value(WithoutData(f.Upstream)))
	}
	if f.Data != nil {
		details.Raw("data", newInliner().value(f.Data))
	}
	details.NonEmpty("limit", f.Limit)
	addNumber(&details, "value", f.Value)
	addNumber(&details, "used", f.Used)
	details.NonEmpty("setting", f.Setting)
	addNumber(&details, "queued", f.Queued)
	if f.Violations != nil {
		details.Raw("violations", wire.Marshal(f.Violations))
	}
	if f.Nearest != nil {
		details.Raw("nearest", wire.Marshal(f.Nearest))
	}
	if f.Compensation != nil {
		details.Raw("compensation", compensationList(f.Compensation))
	}
	details.NonEmpty("reason", f.Reason)
	details.NonEmpty("run", f.Run)
	details.NonZero("fuel", f.Fuel)

	var body wire.Object
	body.NonEmpty("type", string(f.Type))
	body.Text("message", f.Message)
	if !details.IsEmpty() {
		body.Raw("details", details.Bytes())
	}
	body.NonEmpty("stack", f.Stack)
	return body.Bytes()
}

// Result returns the isError CallToolResult of a failure outside of a run.
func (f *Failure) Result() []byte {
	var structured wire.Object
	structured.Raw("error", f.body())
	return toolResult([][]byte{textBlock(wire.Quote(f.Text()))}, structured.Bytes(), true, nil)
}
