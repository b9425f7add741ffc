package interp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/syntax"
)

// keywords are the keywords of the grammar.
var keywords = []string{
	"and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "pass", "return", "while",
}

// reservedWords are words of Python that the grammar reserves, each with a hint.
var reservedWords = map[string]string{
	"as":       "there is nothing to rename: name what you need by assigning it",
	"assert":   `write if not x: fail("message")`,
	"async":    "calls of tools are ordinary calls, and functions begin with def",
	"await":    "calls of tools are ordinary calls, without await",
	"class":    `use a dict: item = {"name": value}, then item.name`,
	"del":      "write d.pop(key) for a dict, l.pop(index) for a list",
	"except":   "it belongs after the indented body of a try: and ends with a colon",
	"finally":  "it belongs after a try: and its except parts, and ends with a colon",
	"from":     "a script cannot import: json and math are always there, and tools are called as server.tool({...})",
	"global":   "an inner function cannot rebind an outer variable: return the value, or change a dict or list",
	"import":   "a script cannot import: json and math are always there, and tools are called as server.tool({...})",
	"is":       "it goes between a value and None, True or False; compare other values with ==",
	"nonlocal": "an inner function cannot rebind an outer variable: return the value, or change a dict or list",
	"raise":    `it begins a statement of its own: raise Error("message")`,
	"try":      "write try: on a line of its own, with the body indented below it",
	"with":     "a script opens nothing that needs closing (for cleanup, use try: and finally:)",
	"yield":    "collect the values in a list and return it",
}

// undefinedHints are hints for names that are defined in other languages.
var undefinedHints = func() map[string]string {
	const (
		noErrors  = `there are two classes of errors, Error and ToolError: raise Error("message"), except Error as e`
		noModules = "there are no modules but json and math"
		noMean    = noModules + ": the mean is sum(xs) / len(xs)"
		noClock   = "a script has no clock and cannot wait: pass the time in as a parameter, or ask a tool for it"
		noWait    = "a script cannot wait: return, and have the agent call again, or ask a tool that waits"
		noRandom  = "a script has no random numbers: pass them in as a parameter, or ask a tool for them"
		noFiles   = "a script reaches nothing but tools"
	)
	hints := map[string]string{
		"true": "write True", "false": "write False",
		"null": "write None", "none": "write None", "nil": "write None", "undefined": "write None",
		"map":         "use a comprehension: [f(x) for x in xs]",
		"filter":      "use a comprehension: [x for x in xs if f(x)]",
		"pow":         "use math.pow(x, y)",
		"divmod":      "write x // y and x % y",
		"callable":    `compare type(x) with a name: type(x) == "function"`,
		"format":      `use "{}".format(x) or "%d" % x`,
		"next":        "take the first of a list: xs[0] if xs else None",
		"iter":        "loop over the value itself",
		"frozenset":   "use set, or a tuple as a key",
		"object":      "use a dict",
		"super":       "there are no classes",
		"self":        "there are no classes",
		"exit":        "write return, or fail(\"message\")",
		"quit":        "write return, or fail(\"message\")",
		"input":       "the arguments of the tool are in params",
		"arguments":   "the arguments of the tool are in params",
		"args":        "the arguments of the tool are in params",
		"__name__":    "the whole script is run: call the function, or return",
		"console":     "use print(...)",
		"logger":      "use log.info(...), log.warn(...), log.error(...)",
		"logging":     "use log.info(...), log.warn(...), log.error(...)",
		"JSON":        "use json.encode and json.decode",
		"Math":        "use math",
		"hex":         `use f"{x:x}", with 0x in front f"{x:#x}"`,
		"oct":         `use f"{x:o}", with 0o in front f"{x:#o}"`,
		"bin":         `use f"{x:b}", with 0b in front f"{x:#b}"`,
		"reduce":      "add up in a loop: total = f(total, x)",
		"setattr":     "write d[name] = value",
		"delattr":     "write d.pop(name)",
		"issubclass":  "there are no classes",
		"OrderedDict": "dicts keep their order: use dict",
		"call_tool":   "a tool is called as server.tool({...})",
		"Promise":     "calls that overlap are parallel([lambda: server.tool({...}), ...])",
		"parseInt":    "use int(x)",
		"parseFloat":  "use float(x)",
		"Object":      "a dict has .keys(), .values() and .items()",
		"require":     noModules,
	}
	for hint, names := range map[string]string{
		noErrors:  "BaseException ValueError KeyError TypeError IndexError LookupError RuntimeError AttributeError NameError ZeroDivisionError StopIteration TimeoutError ConnectionError OSError IOError NotImplementedError",
		noModules: "re os sys itertools functools collections copy string traceback typing dataclasses asyncio defaultdict Counter namedtuple",
		noClock:   "time datetime date timedelta now",
		noWait:    "sleep",
		noMean:    "statistics",
		noRandom:  "random uuid secrets",
		noFiles:   "open requests urllib http fetch subprocess eval exec compile",
	} {
		for _, name := range strings.Fields(names) {
			hints[name] = hint
		}
	}
	return hints
}()

// syntaxError turns an error of the parser in a portion into one at the wrong token,
// with a hint if there is one.
func (s *source) syntaxError(err error, in portion) *abi.Error {
	var e syntax.Error
	if !errors.As(err, &e) {
		return s.invalid(nil, err.Error())
	}
	tokens := lexAround(in, int(e.Pos.Line), int(e.Pos.Col), 16)
	// For this message the parser gives the position of the token, for nearly all
	// others the end of the token.
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
	if in.field && strings.Count(in.code, "(") == 1 {
		message = strings.ReplaceAll(message, "')'", "'}'") // the parenthesis stands for the brace
	}
	if hint := syntaxHint(tokens, i); hint != "" {
		message += ": " + hint
	} else if open := unclosed(in, t); open != nil {
		message += fmt.Sprintf(": the %s of line %d, column %d is not closed", open.text, open.line, open.col)
	}
	return s.invalid(pos, "syntax error: "+message)
}

// wordHint returns a hint for a reserved word or keyword at token i that is used
// as a name or for a statement that Starlark does not have.
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

// findToken returns the index of the token that starts or ends at a position, or
// else of the last one that starts before it.
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
