package envelope

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Params are the arguments of a tool that requests over HTTP repeat in headers, as the
// tool's inputSchema says with x-mcp-header (revision 2026-07-28,
// basic/transports/streamable-http, "Custom Headers from Tool Parameters"). The zero
// Params are of a tool without any.
type Params struct{ all []param }

type param struct {
	header string   // canonical
	path   []string // in the arguments
}

// IsEmpty reports whether no argument is repeated in a header.
func (p Params) IsEmpty() bool { return len(p.all) == 0 }

// annotation is the member of a schema that names a header.
const annotation = "x-mcp-header"

// maxSchemaDepth bounds how deep a schema is searched for annotations.
const maxSchemaDepth = 128

// ParseParams reads the annotations of a tool's inputSchema. An error says what is wrong
// with one of them. Such a tool must not be listed to clients ("Schema Extension").
func ParseParams(schema []byte) (Params, error) {
	// An escape may hide the name.
	if text := string(schema); !strings.Contains(text, annotation) && !strings.Contains(text, `\u`) {
		return Params{}, nil
	}
	var tree any
	if err := json.Unmarshal(schema, &tree); err != nil { // also for repeated names
		return Params{}, fmt.Errorf("inputSchema cannot be read: %w", err)
	}
	r := schemaReader{headers: map[string]bool{}}
	if err := r.schema(tree, nil, true, 0); err != nil {
		return Params{}, err
	}
	slices.SortFunc(r.all, func(a, b param) int { return strings.Compare(a.header, b.header) })
	return Params{r.all}, nil
}

type schemaReader struct {
	all     []param
	headers map[string]bool // of all, canonical
}

// schema reads a schema. path is that of the argument it describes. reachable says that
// it does describe one: that only properties lead to it.
func (r *schemaReader) schema(schema any, path []string, reachable bool, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("inputSchema has more than %d levels", maxSchemaDepth)
	}
	switch schema := schema.(type) {
	case []any: // of allOf and others
		for _, s := range schema {
			if err := r.schema(s, path, false, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		if header, ok := schema[annotation]; ok {
			if err := r.annotated(schema, header, path, reachable); err != nil {
				return fmt.Errorf("%s of %s: %w", annotation, display(path), err)
			}
		}
		for keyword, value := range schema {
			if err := r.keyword(keyword, value, path, reachable, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyword reads the schemas in the value of a keyword.
func (r *schemaReader) keyword(keyword string, value any, path []string, reachable bool, depth int) error {
	switch keyword {
	case annotation, "default", "const", "enum", "examples":
		return nil // data, not schemas
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		byName, _ := value.(map[string]any)
		for name, schema := range byName {
			below := append(path[:len(path):len(path)], name)
			if err := r.schema(schema, below, reachable && keyword == "properties", depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return r.schema(value, path, false, depth+1)
}

// annotated reads an annotation.
func (r *schemaReader) annotated(schema map[string]any, header any, path []string, reachable bool) error {
	name, ok := header.(string)
	switch {
	case !ok || name == "":
		return errors.New("must be a string that is not empty")
	case strings.ContainsFunc(name, func(c rune) bool { return !isTokenChar(c) }):
		return fmt.Errorf("%q is no name of a header", name)
	case !reachable || len(path) == 0:
		return errors.New("only properties can have it, not items, alternatives or references")
	}
	switch schema["type"] {
	case "string", "integer", "boolean":
	default:
		return errors.New("the type must be string, integer or boolean")
	}
	canonical := http.CanonicalHeaderKey(HeaderParam + name)
	if r.headers[canonical] {
		return fmt.Errorf("%q is used twice", name)
	}
	r.headers[canonical] = true
	r.all = append(r.all, param{canonical, path})
	return nil
}

// isTokenChar reports whether a name of a header can have a character (RFC 9110, section
// 5.6.2, tchar).
func isTokenChar(c rune) bool {
	return c < 0x80 && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
}

func display(path []string) string {
	if len(path) == 0 {
		return "inputSchema"
	}
	return strings.Join(path, ".")
}

// SetHeaders sets the headers for the arguments of a call (a raw object; nil for none). A
// value that no header can have, such as an object, gets none: the server refuses it. It
// fails if JSON parsers may read such an argument differently.
func (p Params) SetHeaders(h http.Header, arguments []byte) error {
	for _, param := range p.all {
		value, err := param.value(arguments)
		if err != nil {
			return err
		}
		if text, ok := headerText(value); ok {
			h.Set(param.header, EncodeValue(text))
		}
	}
	return nil
}

// CheckHeaders compares the headers of a request with the arguments in its body ("Server
// Behavior for Custom Headers"). The error is the one with which a server refuses the
// request. Headers that belong to no argument are ignored.
func (p Params) CheckHeaders(h http.Header, arguments []byte) *wire.RPCError {
	for _, param := range p.all {
		value, err := param.value(arguments)
		if err != nil {
			return wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		if bad := param.check(h[param.header], value); bad != nil {
			return bad
		}
	}
	return nil
}

func (p param) check(headers []string, value jsontext.Value) *wire.RPCError {
	want, wanted := headerText(value)
	switch {
	case len(headers) > 1:
		return Mismatch("the header %s appears more than once", p.header)
	case len(headers) == 0 && wanted:
		return Mismatch("the header %s is missing", p.header)
	case len(headers) == 0:
		return nil
	case !wanted:
		return Mismatch("the header %s has no value in the body", p.header)
	}
	got, ok := DecodeValue(headers[0])
	switch {
	case !ok:
		return Mismatch("the header %s has characters that need base64, or bad base64", p.header)
	case got == want || value.Kind() == '0' && sameNumber(got, want):
		return nil
	}
	return Mismatch("the header %s does not match the body", p.header)
}

// value returns the raw value of the argument, nil if there is none. It fails if a name on
// the path appears more than once, since parsers then differ.
func (p param) value(arguments []byte) (jsontext.Value, error) {
	value := jsontext.Value(arguments)
	for _, name := range p.path {
		if value.Kind() != '{' {
			return nil, nil
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return nil, fmt.Errorf("params.arguments: %w", err)
		}
		value = members[name]
	}
	return value, nil
}

// headerText returns a value as a header has it, before it is encoded. ok is false for
// values that a header cannot have, and for none.
func headerText(value jsontext.Value) (text string, ok bool) {
	switch value.Kind() {
	case '"':
		return wire.Text(value)
	case 't', 'f':
		return string(value), true
	case '0':
		return decimal(string(value)), true
	}
	return "", false
}

// maxNumber bounds the length of numbers that are converted.
const maxNumber = 64

// decimal writes an integer without fraction or exponent. Other numbers stay as they are.
func decimal(number string) string {
	if !strings.ContainsAny(number, ".eE") {
		return number
	}
	if n, ok := parseNumber(number); ok && n.IsInt() {
		return n.Num().String()
	}
	return number
}

func sameNumber(a, b string) bool {
	x, ok := parseNumber(a)
	y, ok2 := parseNumber(b)
	return ok && ok2 && x.Cmp(y) == 0
}

// parseNumber parses a JSON number whose exponent is small enough.
func parseNumber(text string) (*big.Rat, bool) {
	if len(text) > maxNumber || !jsontext.Value(text).IsValid() || jsontext.Value(text).Kind() != '0' {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
