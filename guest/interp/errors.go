package interp

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
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

// keywords are the keywords of the grammar.
var keywords = []string{
	"and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
	"import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "yield",
}

// reservedWords are words not allowed as names, each with a hint for a wrong place or a word
// without a meaning here.
var reservedWords = map[string]string{
	"as":       "it stands in import and except: import math as m, except ValueError as e",
	"async":    "calls of tools are ordinary calls, and functions begin with def",
	"await":    "calls of tools are ordinary calls, without await",
	"class":    "it begins a statement of its own: class Name:",
	"del":      "it begins a statement of its own: del d[key]",
	"except":   "it belongs after the indented body of a try: and ends with a colon",
	"finally":  "it belongs after a try: and its except parts, and ends with a colon",
	"from":     "it begins a statement of its own: from math import sqrt",
	"global":   "it begins a statement of its own: global name",
	"import":   "it begins a statement of its own: import math",
	"is":       "it goes between two values",
	"nonlocal": "it begins a statement of its own: nonlocal name",
	"raise":    `it begins a statement of its own: raise ValueError("message")`,
	"try":      "write try: on a line of its own, with the body indented below it",
	"with":     "a script opens nothing that needs closing (for cleanup, use try: and finally:)",
	"yield":    "it belongs in a function that begins with def",
}

const (
	reachesNothing = "a script reaches nothing but tools"
	overlap        = "calls that overlap are parallel([lambda: server.tool({...}), ...])"
)

// undefinedHints are hints for names defined in other languages.
var undefinedHints = func() map[string]string {
	const noWait = "a script cannot wait: return, and have the agent call again, or ask a tool that waits"
	hints := map[string]string{
		"true": "write True", "false": "write False",
		"null": "write None", "none": "write None", "nil": "write None", "undefined": "write None",
		"super":      "it belongs in a method of a class: super().name(...)",
		"self":       "it is the first parameter of a method: def name(self):",
		"exit":       "write return, or fail(\"message\")",
		"quit":       "write return, or fail(\"message\")",
		"input":      "the arguments of the tool are in params",
		"arguments":  "the arguments of the tool are in params",
		"args":       "the arguments of the tool are in params",
		"console":    "use print(...)",
		"logger":     "use log.info(...), log.warn(...), log.error(...)",
		"logging":    "use log.info(...), log.warn(...), log.error(...)",
		"JSON":       "use json.encode and json.decode",
		"Math":       "use math",
		"bytearray":  "bytes cannot be changed: collect them in a list, and make bytes(list) of it",
		"memoryview": "use slices of bytes",
		"complex":    "there are no complex numbers: keep the two parts in a tuple",
		"delattr":    "write del x.name",
		"call_tool":  "a tool is called as server.tool({...})",
		"Promise":    "calls that overlap are parallel([lambda: server.tool({...}), ...])",
		"parseInt":   "use int(x)",
		"parseFloat": "use float(x)",
		"Object":     "a dict has .keys(), .values() and .items()",
		"require":    "write import name",
	}
	for hint, names := range map[string]string{
		noWait:         "sleep",
		reachesNothing: "os sys open requests urllib http fetch subprocess eval exec compile pathlib",
		overlap:        "asyncio threading concurrent",
		"the errors of calls have no traceback: use e.message": "traceback",
	} {
		for _, name := range strings.Fields(names) {
			hints[name] = hint
		}
	}
	for module, names := range map[string]string{
		"collections": "Counter OrderedDict defaultdict deque namedtuple", "copy": "deepcopy",
		"datetime": "date timedelta timezone", "dataclasses": "asdict dataclass", "enum": "Enum IntEnum auto",
		"functools": "lru_cache partial reduce wraps", "itertools": "accumulate chain combinations groupby islice permutations product",
		"math": "ceil floor gcd sqrt", "random": "choice randint shuffle", "typing": "Any Callable Dict Iterable List Optional Tuple Union",
		"decimal": "Decimal", "fractions": "Fraction",
	} {
		for _, name := range strings.Fields(names) {
			hints[name] = fmt.Sprintf("write from %s import %s", module, name)
		}
	}
	return hints
}()

// syntaxError turns an error of the parser into an error at the wrong token, with a hint if
// available.
func (s *source) syntaxError(e *parse.Error) *abi.Error {
	if e.Exact {
		return s.invalid(s.position(e.Pos), "syntax error: "+e.Msg)
	}
	in := e.In
	tokens := lexAround(in, int(e.Pos.Line), int(e.Pos.Col), 16)
	// For this message the parser gives the position of the token, for nearly all other messages
	// the end of the token.
	atStart := strings.HasSuffix(e.Msg, "want primary expression")
	i := findToken(tokens, int(e.Pos.Line), int(e.Pos.Col), atStart)
	pos := s.at(tokens[i].line, tokens[i].col)
	if c, ok := strings.CutPrefix(e.Msg, "unexpected input character '"); ok {
		// At the beginning of a line the parser gives the end of the line before.
		for j := i; j < len(tokens); j++ {
			if strings.HasPrefix(tokens[j].text, strings.TrimSuffix(c, "'")) {
				i, pos = j, s.at(tokens[j].line, tokens[j].col)
				break
			}
		}
	}
	t := tokens[i]
	chained := strings.Contains(e.Msg, "does not associate") // t is an operator, perhaps is
	if hint := wordHint(tokens, i); hint != "" && !chained {
		return s.invalid(pos, fmt.Sprintf("syntax error: %s is a reserved word: %s", t.text, hint))
	}
	message := e.Msg
	switch {
	case strings.HasSuffix(message, ", want indent"):
		message = "expected an indented block"
	case strings.HasPrefix(message, "got indent"):
		message = "unexpected indentation"
	case strings.Contains(message, " does not associate with "):
		message = strings.TrimSuffix(message, " (use parens)") // which would compare with a bool
	case message == "unexpected newline in string":
		message += `: the quote is not closed (put text of several lines between """)`
	}
	if in.Field && strings.Count(in.Code, "(") == 1 {
		message = strings.ReplaceAll(message, "')'", "'}'") // the parenthesis stands for the brace
	}
	if hint := syntaxHint(tokens, i); hint != "" {
		message += ": " + hint
	} else if open := unclosed(in, t); open != nil {
		message += fmt.Sprintf(": the %s of line %d, column %d is not closed", open.text, open.line, open.col)
	}
	return s.invalid(pos, "syntax error: "+message)
}

// wordHint returns a hint for a reserved word or keyword at token i used as a name or for a
// statement missing from Starlark.
func wordHint(tokens []token, i int) string {
	t := tokens[i]
	hint, reserved := reservedWords[t.text]
	if t.kind != wordToken || !reserved && !slices.Contains(keywords, t.text) {
		return ""
	}
	switch {
	case t.is("from") && i > 0 && tokens[i-1].is("yield"):
		return reservedWords["yield"]
	case i > 0 && tokens[i-1].is("."):
		return fmt.Sprintf("write [%q] instead of .%s", t.text, t.text)
	case i > 0 && tokens[i-1].is("def"):
		return "give the function another name"
	case i+1 < len(tokens) && tokens[i+1].is("=") && t.innermostBracket == '(':
		return fmt.Sprintf("as an argument name it must be in a dict: tool({%q: ...})", t.text)
	}
	return hint
}

// findToken returns the index of the token with its start or end at a position, or else of the last
// token before the position.
func findToken(tokens []token, line, col int, atStart bool) int {
	found := -1
	last := 0
	for i, t := range tokens {
		starts := t.line == line && t.col == col
		ends := t.endLine == line && t.endCol == col
		switch {
		case starts && (atStart || found < 0), ends && !atStart && t.kind != endToken:
			if found < 0 || starts == atStart {
				found = i
			}
		}
		if t.line < line || t.line == line && t.col <= col {
			last = i
		}
	}
	if found >= 0 {
		return found
	}
	return last
}

// explain adds a hint to the library's message about a failure, if the message has one.
func explain(message string) string {
	message = withoutHidden(message)
	const meant = " field or method (did you mean ."
	if before, _, ok := strings.Cut(message, meant); ok {
		// A hint for a name is better than the nearest name.
		if kind, name, _ := strings.Cut(before, " has no ."); methodHints[kind][name] != "" {
			message = before + " field or method"
		}
	}
	if hint := runtimeHint(message); hint != "" {
		return fmt.Sprintf("%s (%s)", message, hint)
	}
	return message
}

// withoutHidden names the member of a class in the library's message as the script does.
func withoutHidden(message string) string {
	for _, named := range []string{"function ", "local variable "} {
		if rest, ok := strings.CutPrefix(message, named+parse.MemberPrefix); ok {
			return named + rest
		}
	}
	return message
}

func runtimeHint(message string) string {
	if kind, rest, ok := strings.Cut(message, " has no ."); ok {
		switch name, after, _ := strings.Cut(rest, " "); {
		case strings.HasPrefix(after, "field or method") && kind != "NoneType" && resultMembers[name]:
			return answerHint
		case after == "field or method":
			return methodHint(kind, name)
		}
	}
	if op, ok := strings.CutPrefix(message, "unknown binary op: "); ok {
		switch {
		case strings.HasPrefix(op, "builtin_function_or_method | "):
			return "several types are a tuple: isinstance(x, (int, str))"
		case strings.Contains(op, "NoneType"):
			return noneHint
		case strings.HasPrefix(op, "list + "):
			return "write xs + [x], or xs + list(x)"
		case op == "dict + dict":
			return "merge dicts with a | b; several values are a list, [a, b]"
		case strings.HasPrefix(op, "string + ") || strings.HasSuffix(op, " + string"):
			return `join text with str(x), or write f"...{x}..."`
		}
		return ""
	}
	if strings.HasSuffix(message, " not implemented") && strings.Contains(message, "NoneType") {
		return "None has no order: test x != None first, or leave None out, sorted([x for x in xs if x != None])"
	}
	for _, h := range []struct{ prefix, suffix, hint string }{
		{"unhandled index operation NoneType", "", noneHint},
		{"NoneType value is not iterable", "", noneHint},
		{"invalid call of non-function (NoneType)", "", "the function that is called is None"},
		{"invalid call of non-function (module)", "", "a module has functions: log.info(x), json.encode(x)"},
		{"invalid call of non-function (server)", "", "call one of its tools: server.tool({...})"},
		{"local variable ", " referenced before assignment", unboundHint},
		{"server value is not iterable", "", "its tools are called as server.tool({...})"},
		{"string index: got string", "", textHint},
		{"json.decode: for parameter x: got ", "", "JSON that a tool answers with is decoded already: use the value as it is"},
		{"join: in list, want string, got ", "", "convert each to text: \", \".join([str(x) for x in xs])"},
		{"", " not implemented", "these have no order: convert text to a number with int(x), or give sorted a key=lambda x: ..."},
		{"round() takes exactly one argument (2 given)", "", "for two digits write round(x, 2), without math"},
		{"max: argument is an empty sequence", "", "write max(xs, default=0), or max(xs) if xs else 0"},
		{"min: argument is an empty sequence", "", "write min(xs, default=0), or min(xs) if xs else 0"},
		{"parallel_map: for parameter function: got ", "", "the function comes first: parallel_map(function, items)"},
		{"invalid call of non-function", "", "only functions and tools can be called"},
		{"", " in sequence assignment", pairsHint},
		{"too few values to unpack", ", want 2)", pairsHint},
		{"too many values to unpack", ", want 2)", pairsHint},
		{"string value does not support item assignment", "", "text cannot change: make a new one"},
		{"tuple value does not support item assignment", "", "a tuple cannot change: convert it to a list, list(x)"},
		{"", " frozen list", "params and what is in it cannot change: change a copy, list(x)"},
		{"", " frozen hash table", "params and what is in it cannot change: change a copy, dict(params)"},
		{"", " hash table during iteration", "no dict or set can change while it is looped over: loop over a copy, list(x)"},
		{"", " list during iteration", "no list can change while it is looped over: loop over a copy, list(x)"},
		{"unhashable type: ", "", "keys of dicts and elements of sets are text, numbers or tuples"},
	} {
		if strings.HasPrefix(message, h.prefix) && strings.HasSuffix(message, h.suffix) {
			return h.hint
		}
	}
	return ""
}

const unboundHint = "it has no value here; a function rebinds a variable outside of it after global x or nonlocal x"

const (
	answerHint = "a call returns the value of the tool's answer; server.tool.raw({...}) returns the whole result"
	textHint   = "the value is text; " + answerHint
)

// resultMembers are the members of an MCP result. Scripts often look for them in the result of a
// call.
var resultMembers = map[string]bool{"content": true, "structuredContent": true, "isError": true}

const pairsHint = "for the pairs of a dict, loop over d.items()"

const noneHint = "the value is None: test it first, if x != None, or use d.get(key, default)"

// methodHint returns the replacement for a method of Python, JavaScript or another language.
func methodHint(kind, name string) string {
	switch kind {
	case "NoneType":
		return noneHint
	case "builtin_function_or_method":
		return fmt.Sprintf("methods are those of values: write lambda s: s.%s(), or call what is before the dot", name)
	}
	if hint := methodHints[kind][name]; hint != "" {
		return "write " + hint
	}
	return ""
}

var methodHints = func() map[string]map[string]string {
	const (
		text   = "string"
		length = "len(x)"
	)
	hints := map[string]map[string]string{
		text: {
			"trim": "x.strip()", "trimStart": "x.lstrip()", "trimEnd": "x.rstrip()",
			"toUpperCase": "x.upper()", "toLowerCase": "x.lower()", "startsWith": "x.startswith(y)", "endsWith": "x.endswith(y)",
			"includes": "y in x", "contains": "y in x", "indexOf": "x.find(y)", "charAt": "x[i]",
			"substring": "x[a:b]", "substr": "x[a:b]", "slice": "x[a:b]", "replaceAll": "x.replace(a, b)",
			"append": "x += y", "concat": "x + y", "push": "x += y",
			"match": "re.match(pattern, x)", "search": "re.search(pattern, x)", "test": "re.search(pattern, x)",
			"length": length, "size": length,
		},
		"list": {
			"sorted": "sorted(xs)", "reversed": "list(reversed(xs))",
			"push": "xs.append(x)", "add": "xs.append(x)", "shift": "xs.pop(0)", "unshift": "xs.insert(0, x)",
			"includes": "x in xs", "contains": "x in xs", "indexOf": "xs.index(x)", "slice": "xs[a:b]", "concat": "xs + ys",
			"map": "[f(x) for x in xs]", "filter": "[x for x in xs if f(x)]", "forEach": "for x in xs:", "join": `", ".join(xs)`,
			"find": "[x for x in xs if f(x)]", "some": "any([f(x) for x in xs])", "every": "all([f(x) for x in xs])",
			"get": "xs[i] if i < len(xs) else None", "items": "enumerate(xs)",
			"length": length, "size": length,
		},
		"dict": {
			"has_key": "key in d", "containsKey": "key in d", "hasOwnProperty": "key in d", "has": "key in d", "contains": "key in d",
			"iteritems": "d.items()", "iterkeys": "d.keys()", "itervalues": "d.values()", "entries": "d.items()",
			"append": "d[key] = value", "add": "d[key] = value", "merge": "d | other", "assign": "d | other", "set": "d[key] = value",
		},
		"set":   {"length": length, "size": length, "has": "x in s", "contains": "x in s"},
		"tuple": {"append": "list(x)", "length": length},
	}
	for _, kind := range []string{"int", "float"} {
		hints[kind] = map[string]string{
			"toFixed": `f"{x:.2f}"`, "toString": "str(x)", "length": "len(str(x))",
		}
	}
	return hints
}()

// syntaxHint guesses the intention from the tokens around the wrong token.
func syntaxHint(tokens []token, i int) string {
	at := func(j int) token {
		if j < 0 || j >= len(tokens) {
			return token{kind: endToken}
		}
		return tokens[j]
	}
	t, before, after := at(i), at(i-1), at(i+1)
	switch {
	case (t.is(",") || t.kind == wordToken) && startsWith(tokens, i, "except"):
		return "write except Error as e:"
	case t.is("=") && startsWith(tokens, i, "if", "elif", "while"):
		return "compare with =="
	case t.is("{") && startsWith(tokens, i, "if", "elif", "else", "for", "while", "def", "try", "except", "finally"):
		return "blocks begin with a colon, and their lines are indented"
	case t.kind == wordToken && before.startsStatement && (before.is("var") || before.is("let") || before.is("const")):
		return "assign without a word in front: x = 1"
	case t.kind == wordToken && before.startsStatement && (before.is("function") || before.is("func") || before.is("fn")):
		return "a function is def name(parameters): and its indented body"
	case t.is("then"):
		return "write a colon instead of then"
	case t.is("return") && before.is(":"):
		return "the body of a lambda is one expression, without return (write def for more)"
	case t.is("else") && t.innermostBracket != 0, t.is("if") && (before.is("[") || before.is("{")):
		return "the choice comes first: [x if a else b for x in xs]"
	case t.is("else") && t.startsStatement:
		return "there is no if, loop or try at the same indentation"
	case t.is("elif") && t.startsStatement:
		return "there is no if at the same indentation"
	case t.is("if") && before.kind != newlineToken && !t.startsStatement && !before.is("else") && !isOpening(before):
		return "write a if condition else b"
	case t.is("=") && startsWith(tokens, i, "lambda"):
		return "a lambda assigns nothing (write def)"
	case t.is("//") && t.startsStatement, t.is("/") && after.is("*"), before.is("//") && before.startsStatement:
		return "a comment begins with #"
	case t.kind == wordToken && before.kind == stringToken && !t.spaceBefore:
		return `escape a quote inside text as \' or \", or put other quotes around the text`
	case before.is("print") && before.startsStatement:
		return "print is a function: print(...)"
	case before.is("match") && before.startsStatement:
		return "a match statement ends its line with a colon, and has indented lines with case"
	case t.is("&") && (before.is("&") || after.is("&")):
		return "write and instead of &&"
	case t.is("|") && (before.is("|") || after.is("|")):
		return "write or instead of ||"
	case t.is("!"):
		return "write not instead of !"
	case t.is("?"):
		return "write a if condition else b"
	case t.is("if") && before.is("else"):
		return "write elif"
	case (before.is("+") && at(i-2).is("+")) || (before.is("-") && at(i-2).is("-")):
		return "write x += 1 or x -= 1"
	}
	return ""
}

// startsWith reports whether the statement of token i begins with any of the words.
func startsWith(tokens []token, i int, words ...string) bool {
	for i--; i >= 0; i-- {
		for _, w := range words {
			if tokens[i].is(w) && (tokens[i].startsStatement || w == "lambda") {
				return true
			}
		}
		if tokens[i].startsStatement {
			break
		}
	}
	return false
}

func isOpening(t token) bool {
	return t.kind == punctToken && strings.HasSuffix("([{,=:+-*/%<>|&", t.text)
}

// unclosed returns the bracket still open at a token that should be outside brackets: at the end,
// or on a later line.
func unclosed(in parse.Portion, at token) *token {
	l := lexer{code: in.Code, line: in.Line, col: in.Col, statement: true}
	var open []token
	for l.pos < len(l.code) && (l.line < at.line || l.line == at.line && l.col <= at.col) {
		l.scan()
		if len(l.tokens) == 0 {
			continue
		}
		t := l.tokens[0]
		l.tokens = l.tokens[:0]
		if t.line > at.line || t.line == at.line && t.col >= at.col {
			break
		}
		switch {
		case t.is("("), t.is("["), t.is("{"):
			open = append(open, t)
		case (t.is(")") || t.is("]") || t.is("}")) && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if n := len(open); n > 0 && (at.kind == endToken || open[n-1].line < at.line) {
		return &open[n-1]
	}
	return nil
}
