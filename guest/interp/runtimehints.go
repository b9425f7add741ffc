package interp

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

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
