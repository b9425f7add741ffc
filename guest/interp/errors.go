package interp

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A source is a script with a name.
type source struct {
	name, code string
	lines      []string        // split when first needed
	agentTools []string        // see abi.Request
	more       bool            // the first error could be put right by more lines
	modules    []*sourceModule // imported by a compiled program
}

func newSource(name, code string) *source {
	if name == "" {
		name = "script"
	}
	return &source{name: name, code: unfenced(strings.TrimPrefix(code, "\uFEFF"))}
}

// unfenced returns code without surrounding fences of Markdown. The lines of the fences stay,
// empty, so positions do not change.
func unfenced(code string) string {
	const fence = "```"
	start := len(code) - len(strings.TrimLeft(code, " \t\r\n"))
	if !strings.HasPrefix(code[start:], fence) {
		return code
	}
	end := strings.IndexAny(code[start:], "\r\n")
	if end < 0 {
		return code
	}
	body := strings.TrimRight(code[start+end:], " \t\r\n")
	return code[:start] + strings.TrimSuffix(body, fence)
}

// line returns the text of a line without the line end, which is \n, \r or \r\n as in the library's
// scanner.
func (s *source) line(n int) string {
	if s.lines == nil {
		code := strings.ReplaceAll(s.code, "\r\n", "\n")
		s.lines = strings.Split(strings.ReplaceAll(code, "\r", "\n"), "\n")
	}
	if n < 1 || n > len(s.lines) {
		return ""
	}
	line := s.lines[n-1]
	if !utf8.ValidString(line) {
		return string([]rune(line)) // each invalid byte is a character, as in columns
	}
	return line
}

func (s *source) at(line, col int) *abi.Position {
	return &abi.Position{File: s.name, Line: line, Column: col, Source: s.line(line)}
}

// position converts a position of the library; nil outside the script.
func (s *source) position(pos syntax.Position) *abi.Position {
	if !pos.IsValid() || pos.Line < 1 {
		return nil
	}
	return s.at(int(pos.Line), int(pos.Col))
}

// positionOf returns the position of the byte at an offset.
func (s *source) positionOf(offset int) *abi.Position {
	l := lexer{code: s.code[:offset], line: 1, col: 1}
	l.advance(offset)
	return s.at(l.line, l.col)
}

// wordAt returns the identifier at a position.
func (s *source) wordAt(pos syntax.Position) string {
	line := s.line(int(pos.Line))
	for range int(pos.Col) - 1 {
		_, n := utf8.DecodeRuneInString(line)
		line = line[n:]
	}
	return line[:parse.RunLength(line)]
}

// invalid returns the error for invalid source.
func (s *source) invalid(pos *abi.Position, message string) *abi.Error {
	return &abi.Error{Type: abi.ErrValidation, Message: clip(message, maxErrorText), Position: pos}
}

const (
	// maxErrorText limits the message of a script's error, which is copied several times on the way
	// to the client.
	maxErrorText = 64 << 10
	// maxTraceLine limits each line of source in a backtrace.
	maxTraceLine = 400
)

// clip cuts a text to about most bytes, with a note of how much is missing.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes more)", strings.ToValidUTF8(s[:most], ""), len(s)-most)
}

// panicError returns the error for a panic of the interpreter. The cause is a bug, or a script that
// asks for more than any memory can hold, as in list(range(1 << 62)). For the latter the Go runtime
// has only a text, no error value. A value too large only for the memory of this run does not
// panic.
func panicError(p any) *abi.Error {
	if fault, ok := p.(runtime.Error); ok && strings.Contains(fault.Error(), "makeslice: ") || p == bytes.ErrTooLarge {
		return &abi.Error{Type: abi.ErrResource, Message: "a value would be larger than any memory", Limit: abi.LimitMemory}
	}
	return &abi.Error{Type: abi.ErrInternal, Message: fmt.Sprintf("internal error: %v", p)}
}

// scriptError turns the failure of a running script into the error for the caller.
func (r *run) scriptError(err error) *abi.Error {
	if r.fatal != nil && r.fatal.cause != nil {
		err, r.fatal = r.fatal.cause, nil
	}
	out := &abi.Error{Type: abi.ErrRuntime, Message: clip(explain(err.Error()), maxErrorText)}
	var failed *toolError
	var own *raised
	switch {
	case r.fatal != nil:
		out.Type, out.Message, out.Limit = abi.ErrResource, clip(r.fatal.message, maxErrorText), r.fatal.limit
	case errors.As(err, &failed):
		out.Message = clip(err.Error(), maxErrorText) // the server's text, or the host's
		out.Type, out.Call = failed.call.Type, failed.call
	case errors.As(err, &own):
		out.Message = clip(own.Error(), maxErrorText)
		out.Type, out.Details = own.value.kind, own.value.encodedDetails()
	case errors.Is(err, errTooDeep):
		out.Limit = abi.LimitDepth
	}
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		stack := scriptFrames(framesOf(eval))
		out.Position = r.innermost(stack)
		out.Stack = r.backtrace(stack, out.Message)
		if own != nil {
			out.Stack += r.causes(own.value)
		}
	}
	return out
}

// scriptFrames leaves out the frames of the implementation of try and raise. The part of a try
// statement takes the place of the enclosing function.
func scriptFrames(stack starlark.CallStack) starlark.CallStack {
	var out starlark.CallStack
	for i := 0; i < len(stack); i++ {
		f := stack[i]
		switch {
		case f.Name == tryName && i+1 < len(stack) && len(out) > 0:
			i++
			out[len(out)-1].Pos = stack[i].Pos
		case inModule(f) || f.Name == tryName || f.Name == raiseName || f.Name == boundName || f.Name == parse.MakeClass || f.Name == parse.Generate || f.Name == parse.GenExpr:
		default:
			f.Name = strings.TrimPrefix(strings.TrimPrefix(f.Name, parse.BodyPrefix), parse.MemberPrefix)
			out = append(out, f)
		}
	}
	return out
}

// causes lists the errors being handled at the raise of an error, each on a line.
func (r *run) causes(e *errorValue) string {
	const most = 5
	var b strings.Builder
	for i := 0; i < most && e.cause != nil; i++ {
		e = e.cause
		fmt.Fprintf(&b, "\nwhile handling: %s", clip(e.text(), maxTraceLine))
		if e.origin == nil {
			continue
		}
		if at := r.innermost(scriptFrames(framesOf(e.origin))); at != nil {
			fmt.Fprintf(&b, " (%s:%d:%d)", at.File, at.Line, at.Column)
		}
	}
	return b.String()
}

// resultError returns the error for a result without a JSON form.
func (r *run) resultError(err error) *abi.Error {
	out := &abi.Error{Type: abi.ErrRuntime, Message: clip(err.Error(), maxErrorText)}
	switch {
	case errors.Is(err, errTooLarge):
		out.Type = abi.ErrResource
	case errors.Is(err, errTooDeep):
		out.Limit = abi.LimitDepth
	}
	return out
}

// isBuiltin reports whether a frame belongs to a built-in function.
func isBuiltin(f starlark.CallFrame) bool { return f.Pos.Line < 1 }

// innermost returns the position at which the script failed.
func (r *run) innermost(stack starlark.CallStack) *abi.Position {
	for i := len(stack) - 1; i >= 0; i-- {
		if !isBuiltin(stack[i]) {
			return r.src.position(stack[i].Pos)
		}
	}
	return nil
}

// backtrace returns the stack as text, outermost call first, without the middle of a very deep
// stack.
func (r *run) backtrace(stack starlark.CallStack, message string) string {
	const first, last = 5, 15
	var b strings.Builder
	where := ""
	if n := len(stack); n > 0 && isBuiltin(stack[n-1]) {
		if name := clip(stack[n-1].Name, maxTraceLine); !strings.HasPrefix(message, name+": ") && !strings.HasPrefix(message, name+"() ") {
			where = " in " + name
		}
		stack = stack[:n-1]
	}
	b.WriteString("Traceback (most recent call last):\n")
	for i, f := range stack {
		if skipped := len(stack) - first - last; skipped > 1 && i >= first && i < first+skipped {
			if i == first {
				fmt.Fprintf(&b, "  ... %d more calls\n", skipped)
			}
			continue
		}
		if isBuiltin(f) {
			fmt.Fprintf(&b, "  built-in: in %s\n", clip(f.Name, maxTraceLine))
			continue
		}
		fmt.Fprintf(&b, "  %s:%d:%d: in %s\n", r.src.name, f.Pos.Line, f.Pos.Col, clip(f.Name, maxTraceLine))
		if text := clip(strings.TrimSpace(r.src.line(int(f.Pos.Line))), maxTraceLine); text != "" {
			fmt.Fprintf(&b, "    %s\n", text)
		}
	}
	fmt.Fprintf(&b, "Error%s: %s", where, message)
	return b.String()
}
