package interp

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A source is a script with its name.
type source struct {
	name, code string
	lines      []string // made when first needed
}

func newSource(name, code string) *source {
	if name == "" {
		name = "script"
	}
	return &source{name: name, code: code}
}

// line is the text of a line, without its end; lines end as the library's
// scanner has it, with \n, \r or \r\n.
func (s *source) line(n int) string {
	if s.lines == nil {
		code := strings.ReplaceAll(s.code, "\r\n", "\n")
		s.lines = strings.Split(strings.ReplaceAll(code, "\r", "\n"), "\n")
	}
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.ToValidUTF8(s.lines[n-1], "\uFFFD")
}

func (s *source) at(line, col int) *abi.Position {
	return &abi.Position{File: s.name, Line: line, Column: col, Source: s.line(line)}
}

// position is a library position; nil if it is not in the script.
func (s *source) position(pos syntax.Position) *abi.Position {
	if !pos.IsValid() || pos.Line < 1 {
		return nil
	}
	return s.at(int(pos.Line), int(pos.Col))
}

// positionOf is the position of the byte at an offset.
func (s *source) positionOf(offset int) *abi.Position {
	l := lexer{code: s.code[:offset], line: 1, col: 1}
	l.advance(offset)
	return s.at(l.line, l.col)
}

// wordAt is the identifier at a position.
func (s *source) wordAt(pos syntax.Position) string {
	line := s.line(int(pos.Line))
	for range int(pos.Col) - 1 {
		_, n := utf8.DecodeRuneInString(line)
		line = line[n:]
	}
	return line[:runLength(line)]
}

// invalid is the error for source that cannot be run.
func (s *source) invalid(pos *abi.Position, message string) *abi.Error {
	return &abi.Error{Type: abi.ErrValidation, Message: message, Position: pos}
}

// scriptError turns the failure of a running script into what its caller gets.
func (r *run) scriptError(err error) *abi.Error {
	out := &abi.Error{Type: abi.ErrRuntime, Message: err.Error()}
	var failed *toolError
	switch {
	case r.fatal != nil:
		out.Type, out.Message = abi.ErrResource, r.fatal.message
	case errors.As(err, &failed):
		out.Type, out.Call = failed.call.Type, failed.call
	}
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		out.Position = r.innermost(eval.CallStack)
		out.Stack = r.backtrace(eval.CallStack, out.Message)
	}
	return out
}

// resultError is the error for a result that is not JSON.
func (r *run) resultError(err error) *abi.Error {
	out := &abi.Error{Type: abi.ErrRuntime, Message: err.Error()}
	if errors.Is(err, errTooLarge) {
		out.Type = abi.ErrResource
	}
	return out
}

// isBuiltin says whether a frame is not of the script.
func isBuiltin(f starlark.CallFrame) bool { return f.Pos.Line < 1 }

// innermost is where the script was when it failed.
func (r *run) innermost(stack starlark.CallStack) *abi.Position {
	for i := len(stack) - 1; i >= 0; i-- {
		if !isBuiltin(stack[i]) {
			return r.src.position(stack[i].Pos)
		}
	}
	return nil
}

// backtrace is the stack as text, outermost call first. Of a very deep one the
// middle is left out.
func (r *run) backtrace(stack starlark.CallStack, message string) string {
	const first, last = 5, 15
	var b strings.Builder
	where := ""
	if n := len(stack); n > 0 && isBuiltin(stack[n-1]) {
		where = " in " + stack[n-1].Name
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
			fmt.Fprintf(&b, "  built-in: in %s\n", f.Name)
			continue
		}
		fmt.Fprintf(&b, "  %s:%d:%d: in %s\n", r.src.name, f.Pos.Line, f.Pos.Col, f.Name)
		if text := strings.TrimSpace(r.src.line(int(f.Pos.Line))); text != "" {
			fmt.Fprintf(&b, "    %s\n", text)
		}
	}
	fmt.Fprintf(&b, "Error%s: %s", where, message)
	return b.String()
}
