package envelope

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Headers of a request over HTTP (revision 2026-07-28, basic/transports/streamable-http,
// "Request Metadata"), as http.Header spells them.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderParam   = "Mcp-Param-" // prefix of the headers for arguments of tools
)

// nameMember maps methods to the member of their params repeated in Mcp-Name. The methods for tasks
// are of the extension [protocol.ExtensionTasks].
var nameMember = map[string]string{
	protocol.MethodToolsCall: "name", protocol.MethodPromptsGet: "name", protocol.MethodResourcesRead: "uri",
	protocol.MethodTasksGet: "taskId", protocol.MethodTasksUpdate: "taskId", protocol.MethodTasksCancel: "taskId",
}

// NameOf returns the value that a request repeats in Mcp-Name. needed is false if the method has no
// Mcp-Name header.
func NameOf(method string, params []byte) (name string, needed bool) {
	member, needed := nameMember[method]
	if !needed {
		return "", false
	}
	name, _ = wire.GetString(params, member)
	return name, true
}

// Encoding of values not allowed in a header (revision 2026-07-28,
// basic/transports/streamable-http, "Value Encoding").
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeValue returns the value of Mcp-Name or of a header for an argument.
func EncodeValue(value string) string {
	if isPlain(value) {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

// isPlain reports whether a header can have the value unchanged. An empty value is plain.
func isPlain(value string) bool {
	if isEncoded(value) || strings.Trim(value, " \t") != value {
		return false
	}
	return !strings.ContainsFunc(value, func(c rune) bool { return (c < 0x20 || c > 0x7e) && c != '\t' })
}

func isEncoded(value string) bool {
	return strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix) &&
		len(value) >= len(encodedPrefix)+len(encodedSuffix)
}

// DecodeValue is the reverse of EncodeValue. ok is false if the value of the header has forbidden
// characters, or is encoded wrongly.
func DecodeValue(header string) (value string, ok bool) {
	if !isEncoded(header) {
		return header, isPlain(header)
	}
	if strings.ContainsAny(header, "\r\n") { // which the decoder would skip
		return "", false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(header[len(encodedPrefix) : len(header)-len(encodedSuffix)])
	return string(raw), err == nil && utf8.Valid(raw)
}

// SetHeaders sets the headers of a request, except headers for arguments; see [Params.SetHeaders].
func SetHeaders(h http.Header, revision protocol.Revision, method string, params []byte) {
	h.Set(HeaderVersion, revision.String())
	h.Set(HeaderMethod, method)
	if name, needed := NameOf(method, params); needed {
		h.Set(HeaderName, EncodeValue(name))
	}
}

// CheckHeaders compares the headers of a request over HTTP with the body. Headers for arguments are
// ignored; see [Params.CheckHeaders]. The error is the server's refusal of the request.
func CheckHeaders(h http.Header, method string, params []byte) *wire.RPCError {
	if bad := compare(h, HeaderVersion, Version(params), false); bad != nil {
		return bad
	}
	if bad := compare(h, HeaderMethod, method, false); bad != nil {
		return bad
	}
	if name, needed := NameOf(method, params); needed {
		return compare(h, HeaderName, name, true)
	}
	return nil
}

// compare checks that a header appears once, and with the value of the body.
func compare(h http.Header, header, want string, encoded bool) *wire.RPCError {
	values := h[header]
	switch {
	case len(values) == 0:
		return Mismatch("the header %s is missing", header)
	case len(values) > 1:
		return Mismatch("the header %s appears more than once", header)
	}
	got, ok := values[0], true
	if encoded {
		got, ok = DecodeValue(got)
	}
	switch {
	case !ok:
		return Mismatch("the header %s has characters that need base64, or bad base64", header)
	case got != want:
		return Mismatch("the header %s does not match the body", header)
	}
	return nil
}

// Mismatch returns an error about the headers of a request.
func Mismatch(format string, args ...any) *wire.RPCError {
	return wire.Errorf(protocol.CodeHeaderMismatch, format, args...)
}

// Params are the arguments of a tool that requests over HTTP repeat in headers, according to
// x-mcp-header in the tool's inputSchema (revision 2026-07-28, basic/transports/streamable-http,
// "Custom Headers from Tool Parameters"). The zero Params are for a tool without repeated
// arguments.
type Params struct {
	all  []param
	root *argument
}

type param struct {
	header string   // canonical
	path   []string // in the arguments
}

// argument is a repeated place in the arguments, or a place that leads to one.
type argument struct {
	members map[string]*argument // nil: none of them is repeated
	param   int                  // index in Params.all; -1 for none
	number  int                  // of all arguments of these Params
}

// IsEmpty reports whether no argument is repeated in a header.
func (p Params) IsEmpty() bool { return len(p.all) == 0 }

// annotation is the member of a schema with the name of a header.
const annotation = "x-mcp-header"

// Bounds of schemas with annotations.
const (
	maxParams      = 64
	maxSchemaDepth = 128     // how deep a schema is searched
	maxSchemaNames = 100_000 // of members of schemas, without the members of data in schemas
)

// ParseParams reads the annotations of a tool's inputSchema. An error describes a faulty
// annotation. A tool with an error must not be listed to clients ("Schema Extension").
//
// ParseParams reads tokens: a schema of a hostile server may have data with a large decoded form.
func ParseParams(schema []byte) (Params, error) {
	// An escape may hide the name.
	if !bytes.Contains(schema, []byte(annotation)) && !bytes.Contains(schema, []byte(`\u`)) {
		return Params{}, nil
	}
	// Names in data may be repeated. Names of schemas are checked here, because the decoder would
	// keep all names.
	r := schemaReader{text: jsontext.NewDecoder(bytes.NewBuffer(schema), jsontext.AllowDuplicateNames(true)), headers: map[string]bool{}}
	err := r.schema(true, 0)
	if err == nil {
		if _, end := r.text.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return Params{}, fmt.Errorf("inputSchema: %w", err)
	}
	slices.SortFunc(r.all, func(a, b param) int { return strings.Compare(a.header, b.header) })
	return newParams(r.all), nil
}

func newParams(all []param) Params {
	p := Params{all: all}
	if len(all) == 0 {
		return p
	}
	count := 0
	add := func() *argument { count++; return &argument{param: -1, number: count - 1} }
	p.root = add()
	for i, of := range all {
		at := p.root
		for _, name := range of.path {
			if at.members == nil {
				at.members = map[string]*argument{}
			}
			if at.members[name] == nil {
				at.members[name] = add()
			}
			at = at.members[name]
		}
		at.param = i
	}
	return p
}

type schemaReader struct {
	text    *jsontext.Decoder
	path    []string // of the argument described by the current schema
	names   int      // names read so far
	all     []param
	headers map[string]bool // of all, canonical
}

// schema reads a schema. reachable is set if the schema describes an argument: only properties lead
// to the schema.
func (r *schemaReader) schema(reachable bool, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("more than %d levels", maxSchemaDepth)
	}
	switch r.text.PeekKind() {
	case '[': // of allOf and similar keywords
		if _, err := r.text.ReadToken(); err != nil {
			return err
		}
		for r.text.PeekKind() != ']' {
			if err := r.schema(false, depth+1); err != nil {
				return err
			}
		}
		_, err := r.text.ReadToken()
		return err
	case '{':
		return r.object(reachable, depth)
	}
	return r.text.SkipValue()
}

// object reads an object schema.
func (r *schemaReader) object(reachable bool, depth int) error {
	var header, kind jsontext.Value
	err := r.members(func(keyword string) (err error) {
		switch keyword {
		case annotation:
			header, err = r.text.ReadValue()
			header = header.Clone()
		case "type":
			kind, err = r.text.ReadValue()
			kind = kind.Clone()
		default:
			err = r.keyword(keyword, reachable, depth)
		}
		return err
	})
	if err == nil && header != nil {
		if err = r.annotated(header, kind, reachable); err != nil {
			err = fmt.Errorf("%s of %s: %w", annotation, display(r.path), err)
		}
	}
	return err
}

// members reads an object, with read for the value of each member.
func (r *schemaReader) members(read func(name string) error) error {
	if _, err := r.text.ReadToken(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.text.PeekKind() != '}' {
		tok, err := r.text.ReadToken()
		if err != nil {
			return err
		}
		name := tok.String()
		switch r.names++; {
		case r.names > maxSchemaNames:
			return fmt.Errorf("more than %d members", maxSchemaNames)
		case seen[name]:
			return fmt.Errorf("%s: %w", r.text.StackPointer(), jsontext.ErrDuplicateName)
		}
		seen[name] = true
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := r.text.ReadToken()
	return err
}

// keyword reads the schemas in the value of a keyword.
func (r *schemaReader) keyword(keyword string, reachable bool, depth int) error {
	switch keyword {
	case "default", "const", "enum", "examples":
		return r.text.SkipValue() // data, not schemas
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		if r.text.PeekKind() != '{' {
			return r.text.SkipValue()
		}
		return r.members(func(name string) error {
			r.path = append(r.path, name)
			err := r.schema(reachable && keyword == "properties", depth+1)
			if err == nil {
				r.path = r.path[:len(r.path)-1]
			}
			return err
		})
	}
	return r.schema(false, depth+1)
}

// annotated reads an annotation of a schema with a type.
func (r *schemaReader) annotated(header, kind jsontext.Value, reachable bool) error {
	name, ok := wire.Text(header)
	switch {
	case !ok || name == "":
		return errors.New("must be a string that is not empty")
	case strings.ContainsFunc(name, func(c rune) bool { return !isTokenChar(c) }):
		return fmt.Errorf("%q is no name of a header", name)
	case !reachable || len(r.path) == 0:
		return errors.New("only properties can have x-mcp-header, not items, alternatives or references")
	}
	switch of, _ := wire.Text(kind); of {
	case "string", "integer", "boolean":
	default:
		return errors.New("the type must be string, integer or boolean")
	}
	canonical := http.CanonicalHeaderKey(HeaderParam + name)
	switch {
	case r.headers[canonical]:
		return fmt.Errorf("%q is used twice", name)
	case len(r.all) == maxParams:
		return fmt.Errorf("more than %d arguments have x-mcp-header", maxParams)
	}
	r.headers[canonical] = true
	r.all = append(r.all, param{canonical, slices.Clone(r.path)})
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

// SetHeaders sets the headers for the arguments of a call (a raw object; nil for none). A value
// that no header can have, such as an object, gets no header: the server refuses the value.
// SetHeaders fails if JSON parsers may read a repeated argument in different ways.
func (p Params) SetHeaders(h http.Header, arguments []byte) error {
	values, err := p.values(arguments)
	if err != nil {
		return err
	}
	for i, param := range p.all {
		if text, ok := headerText(values[i]); ok {
			h.Set(param.header, EncodeValue(text))
		}
	}
	return nil
}

// CheckHeaders compares the headers of a request with the arguments in its body ("Server Behavior
// for Custom Headers"). The error is the server's refusal of the request. Headers without an
// argument are ignored.
func (p Params) CheckHeaders(h http.Header, arguments []byte) *wire.RPCError {
	values, err := p.values(arguments)
	if err != nil {
		return wire.Errorf(wire.CodeInvalidParams, "%v", err)
	}
	for i, param := range p.all {
		if bad := param.check(h[param.header], values[i]); bad != nil {
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

// values returns the raw values of all params, nil for missing values. The arguments are read once.
// values fails if a name on the path of a param appears more than once, since parsers then differ.
func (p Params) values(arguments []byte) ([]jsontext.Value, error) {
	if p.IsEmpty() || len(arguments) == 0 {
		return make([]jsontext.Value, len(p.all)), nil
	}
	r := argumentReader{
		raw: arguments, text: jsontext.NewDecoder(bytes.NewBuffer(arguments), jsontext.AllowDuplicateNames(true)),
		values: make([]jsontext.Value, len(p.all)), seen: map[int]bool{},
	}
	if err := r.read(p.root); err != nil {
		return nil, fmt.Errorf("params.arguments: %w", err)
	}
	return r.values, nil
}

type argumentReader struct {
	raw    []byte
	text   *jsontext.Decoder
	values []jsontext.Value
	seen   map[int]bool // numbers of arguments
}

// read reads the value of an argument.
func (r *argumentReader) read(of *argument) error {
	if of.members == nil || r.text.PeekKind() != '{' {
		value, err := r.text.ReadValue()
		if of.param >= 0 {
			end := int(r.text.InputOffset())
			r.values[of.param] = r.raw[end-len(value) : end] // the decoder may overwrite value
		}
		return err
	}
	if _, err := r.text.ReadToken(); err != nil {
		return err
	}
	for r.text.PeekKind() != '}' {
		tok, err := r.text.ReadToken()
		if err != nil {
			return err
		}
		member := of.members[tok.String()]
		switch {
		case member == nil:
			err = r.text.SkipValue()
		case r.seen[member.number]:
			err = fmt.Errorf("%s: %w", r.text.StackPointer(), jsontext.ErrDuplicateName)
		default:
			r.seen[member.number] = true
			err = r.read(member)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.text.ReadToken()
	return err
}

// headerText returns the text of a value for a header, before encoding. ok is false for a missing
// value, and for a value not allowed in headers.
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

// maxNumber bounds the length of converted numbers.
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

// parseNumber parses a JSON number with a sufficiently small exponent.
func parseNumber(text string) (*big.Rat, bool) {
	if len(text) > maxNumber || !jsontext.Value(text).IsValid() || jsontext.Value(text).Kind() != '0' {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
