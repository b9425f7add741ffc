// Package csv is Python's modules csv and io, the latter with StringIO and BytesIO.
//
//	csv.go     the module csv, and the formats of files
//	reader.go  reader and DictReader
//	writer.go  writer and DictWriter
//	io.go      the module io
package csv

import (
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// The modes of quoting.
const (
	quoteMinimal = iota
	quoteAll
	quoteNonNumeric
	quoteNone
)

const errorClass = "csv.Error"

// Module returns the module csv.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"reader": newReader, "writer": newWriter, "DictReader": newDictReader, "DictWriter": newDictWriter,
		"list_dialects": func(c *stdlib.Call) (starlark.Value, error) {
			return starlark.NewList([]starlark.Value{starlark.String("excel"), starlark.String("excel-tab"), starlark.String("unix")}), c.Unpack()
		},
	})
	members["Error"] = stdlib.ErrorClass(errorClass)
	for i, name := range []string{"QUOTE_MINIMAL", "QUOTE_ALL", "QUOTE_NONNUMERIC", "QUOTE_NONE"} {
		members[name] = starlark.MakeInt(i)
	}
	return &stdlib.Module{Name: "csv", Members: members}
}

func fail(message string) error { return &stdlib.Error{Class: errorClass, Message: message} }

// format says how a file is written. A rune 0 is none.
type format struct {
	delimiter, quote, escape rune
	double, skip, strict     bool
	end                      string
	quoting                  int
}

// names are the keywords of formats.
var names = map[string]bool{
	"dialect": true, "delimiter": true, "quotechar": true, "escapechar": true, "doublequote": true,
	"skipinitialspace": true, "strict": true, "lineterminator": true, "quoting": true,
}

// options reads the keywords of a format and returns the other keywords. positional is a dialect
// given by position, nil for none.
func options(c *stdlib.Call, positional starlark.Value) (format, []starlark.Tuple, error) {
	f := format{delimiter: ',', quote: '"', double: true, end: "\r\n"}
	var rest, own []starlark.Tuple
	for _, kv := range c.Kwargs {
		switch name := string(kv[0].(starlark.String)); {
		case name == "dialect":
			positional = kv[1]
		case names[name]:
			own = append(own, kv)
		default:
			rest = append(rest, kv)
		}
	}
	if positional != nil && positional != starlark.None {
		name, ok := starlark.AsString(positional)
		switch {
		case ok && name == "excel":
		case ok && name == "excel-tab":
			f.delimiter = '\t'
		case ok && name == "unix":
			f.end, f.quoting = "\n", quoteAll
		default:
			return f, nil, fail("unknown dialect")
		}
	}
	var delimiter, quote, escape starlark.Value
	named := &stdlib.Call{Thread: c.Thread, Name: c.Name, Kwargs: own}
	err := named.Unpack("*", nil, "delimiter?", &delimiter, "quotechar?", &quote, "escapechar?", &escape, "doublequote?", &f.double,
		"skipinitialspace?", &f.skip, "strict?", &f.strict, "lineterminator?", &f.end, "quoting?", &f.quoting)
	if err != nil {
		return f, nil, err
	}
	for _, p := range []struct {
		name string
		v    starlark.Value
		to   *rune
	}{{"delimiter", delimiter, &f.delimiter}, {"quotechar", quote, &f.quote}, {"escapechar", escape, &f.escape}} {
		if err := oneCharacter(p.name, p.v, p.to); err != nil {
			return f, nil, err
		}
	}
	if quote == starlark.None && f.quoting == quoteMinimal {
		f.quoting = quoteNone
	}
	switch {
	case f.quoting < quoteMinimal || f.quoting > quoteNone:
		return f, nil, stdlib.Errorf(stdlib.TypeError, `bad "quoting" value`)
	case f.quote == 0 && f.quoting != quoteNone:
		return f, nil, stdlib.Errorf(stdlib.TypeError, "quotechar must be set if quoting enabled")
	}
	return f, rest, nil
}

func oneCharacter(name string, v starlark.Value, to *rune) error {
	if v == nil {
		return nil
	}
	if v == starlark.None && name != "delimiter" {
		*to = 0
		return nil
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return stdlib.Errorf(stdlib.TypeError, `"%s" must be string or None, not %s`, name, stdlib.TypeName(v))
	}
	if utf8.RuneCountInString(s) != 1 {
		return stdlib.Errorf(stdlib.TypeError, `"%s" must be a 1-character string`, name)
	}
	*to, _ = utf8.DecodeRuneInString(s)
	return nil
}

// needsQuotes reports whether a field must be quoted to be read again.
func (f *format) needsQuotes(field string) bool {
	return strings.ContainsRune(field, f.delimiter) || f.quote != 0 && strings.ContainsRune(field, f.quote) ||
		f.escape != 0 && strings.ContainsRune(field, f.escape) || strings.ContainsAny(field, f.end) || strings.ContainsAny(field, "\r\n")
}
