package abi

import (
	"maps"
	"slices"
	"strings"
)

// Ident returns the script name of a server or tool: each byte not allowed in a Starlark identifier
// becomes an underscore, and a leading digit gets an underscore in front. Different names can have
// the same script name; code building a list of script names has to report collisions.
func Ident(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			b.WriteByte(c)
		case c >= '0' && c <= '9':
			if i == 0 {
				b.WriteByte('_')
			}
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}

// Reserved reports whether a name has a meaning in scripts, now or in later versions, so no server
// can have the name: words of the grammar, built-in functions, and values in every script.
func Reserved(name string) bool { return reserved[name] }

// ReservedNames returns all reserved names, sorted.
func ReservedNames() []string { return slices.Sorted(maps.Keys(reserved)) }

var reserved = func() map[string]bool {
	set := make(map[string]bool)
	for _, names := range [][]string{
		// Starlark's keywords and reserved words (specification, "Lexical elements").
		{"and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "pass", "return", "while"},
		{"as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global", "import", "is", "nonlocal", "raise", "try", "with", "yield"},
		// Starlark's built-in constants and functions.
		{"None", "True", "False"},
		{"abs", "all", "any", "bool", "bytes", "chr", "dict", "dir", "enumerate", "fail", "float", "getattr", "hasattr", "hash", "int", "len", "list", "max", "min", "ord", "print", "range", "repr", "reversed", "set", "sorted", "str", "tuple", "type", "zip"},
		// The additions of this dialect, now or later.
		{"json", "math", "params"},
		{"Error", "Exception", "ToolError", "commit", "content", "is_error", "isinstance", "log", "parallel", "parallel_map", "progress", "round", "sum", "tools", "undo"},
		{"bin", "callable", "classmethod", "divmod", "filter", "format", "frozenset", "hex", "id", "issubclass", "iter", "map", "next", "object", "oct", "pow", "property", "setattr", "slice", "staticmethod", "super", "vars"},
		{"Ellipsis", "NotImplemented", "__name__"},
		// Python's classes of errors.
		{"BaseException", "GeneratorExit", "KeyboardInterrupt", "SystemExit", "ArithmeticError", "AssertionError", "AttributeError", "ConnectionError", "DeprecationWarning", "EOFError", "EnvironmentError", "FileExistsError", "FileNotFoundError", "FloatingPointError", "IOError", "ImportError", "IndexError", "InterruptedError", "KeyError", "LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "NotImplementedError", "OSError", "OverflowError", "PermissionError", "RecursionError", "RuntimeError", "StopIteration", "SyntaxError", "TimeoutError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UserWarning", "ValueError", "Warning", "ZeroDivisionError"},
	} {
		for _, n := range names {
			set[n] = true
		}
	}
	return set
}()
