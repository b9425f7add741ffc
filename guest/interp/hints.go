package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

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
