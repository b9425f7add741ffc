package tools

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits on what is accepted as a schema. They are far above what tools need
// and keep the compiling of a hostile one below about a second.
const (
	// MaxSchemaBytes is the largest schema in bytes.
	MaxSchemaBytes = 1 << 20
	// MaxSchemaDepth is how deep a schema's objects and arrays may be nested.
	MaxSchemaDepth = 100
	// MaxSchemaObjects is the number of objects in a schema. The library's
	// compiling is quadratic in it.
	MaxSchemaObjects = 5000
	// MaxPatternBytes is the longest regular expression in a schema. Patterns
	// are Go's (RE2): linear in the text, but also in the pattern.
	MaxPatternBytes = 8192
)

// Schema is a compiled JSON Schema. It is immutable and safe for concurrent
// use.
type Schema struct {
	root *jsonschema.Schema
	// byLocation finds the schema a violation came from.
	byLocation map[string]*jsonschema.Schema
	// checkCost is set when validating could take more than linear time.
	checkCost bool
}

// SchemaError says why a JSON document is not a schema that can be used.
type SchemaError struct {
	What   string // what the schema is, as given to CompileSchema
	Reason string // one line, or one line per violation of the meta-schema
}

func (e *SchemaError) Error() string { return e.What + ": " + e.Reason }

// CompileSchema compiles a JSON Schema, which must be an object. Without
// "$schema" it is read as 2020-12; drafts 4, 6, 7 and 2019-09 are used when
// declared. "format" is asserted where the draft says so (up to draft-07).
// References reach only into the document itself and the drafts' own
// meta-schemas: nothing is ever loaded from network or disk. What names the
// document in errors ("inputSchema"), which are a [*SchemaError].
func CompileSchema(raw []byte, what string) (*Schema, error) {
	doc, err := parseSchema(raw, what)
	if err != nil {
		return nil, err
	}
	return compile(doc, what)
}

// CompileInputSchema is CompileSchema for the arguments of an MCP tool: the
// root "type" must be "object" (MCP 2025-11-25, schema.ts, Tool.inputSchema).
func CompileInputSchema(raw []byte, what string) (*Schema, error) {
	doc, err := parseSchema(raw, what)
	if err != nil {
		return nil, err
	}
	switch typ, ok := doc["type"]; {
	case !ok:
		return nil, &SchemaError{what, `root "type" is missing (the arguments of a tool are an object: add "type": "object")`}
	case typ != "object":
		return nil, &SchemaError{what, fmt.Sprintf(`root "type" is %s, must be "object" (the arguments of a tool are an object)`, display(typ))}
	}
	return compile(doc, what)
}

func parseSchema(raw []byte, what string) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, &SchemaError{what, `is missing (the smallest is {"type": "object"})`}
	}
	if len(raw) > MaxSchemaBytes {
		return nil, &SchemaError{what, fmt.Sprintf("is %d bytes long (at most %d)", len(raw), MaxSchemaBytes)}
	}
	doc, err := parseValue(raw, MaxSchemaDepth)
	if err != nil {
		return nil, &SchemaError{what, err.Error()}
	}
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, &SchemaError{what, "must be a JSON object, is " + describe(doc)}
	}
	if n := countObjects(doc); n > MaxSchemaObjects {
		return nil, &SchemaError{what, fmt.Sprintf("has %d objects (at most %d)", n, MaxSchemaObjects)}
	}
	return obj, nil
}

func countObjects(v any) int {
	n := 0
	switch c := v.(type) {
	case map[string]any:
		n = 1
		for _, sub := range c {
			n += countObjects(sub)
		}
	case []any:
		for _, sub := range c {
			n += countObjects(sub)
		}
	}
	return n
}

func compile(doc map[string]any, what string) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(baseURL, doc); err != nil {
		return nil, schemaError(err, doc, what)
	}
	root, err := c.Compile(baseURL)
	if err != nil {
		return nil, schemaError(err, doc, what)
	}
	s := &Schema{root: root, byLocation: map[string]*jsonschema.Schema{}}
	s.index(root)
	if reason := s.checkChains(); reason != "" {
		return nil, &SchemaError{what, reason}
	}
	s.checkCost = !linear(root)
	return s, nil
}

// Validate checks one JSON value. The error is a [*ValidationError] with every
// violation; bytes that are not JSON are one of them.
func (s *Schema) Validate(value []byte) error {
	v, err := parseValue(value, MaxValueDepth)
	if err != nil {
		return unreadable(err)
	}
	if lib := s.check(v, len(value)); lib != nil {
		return s.explain(lib, v)
	}
	return nil
}

// check runs the library. size is the length of the value's text.
func (s *Schema) check(v any, size int) *jsonschema.ValidationError {
	if s.checkCost && tooCostly(s.root, v, size) {
		return &jsonschema.ValidationError{SchemaURL: s.root.Location, ErrorKind: &costKind{}}
	}
	err := s.root.Validate(v)
	if err == nil {
		return nil
	}
	return err.(*jsonschema.ValidationError)
}
