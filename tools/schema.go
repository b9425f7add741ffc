package tools

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Limits of schemas, far above the needs of tools. They keep the compilation of a hostile one below
// about a second.
const (
	// MaxSchemaBytes is the largest schema in bytes.
	MaxSchemaBytes = 1 << 20
	// MaxSchemaDepth is the nesting depth of a schema's objects and arrays.
	MaxSchemaDepth = 100
	// MaxSchemaObjects is the number of objects in a schema. The library's compilation is quadratic
	// in this number.
	MaxSchemaObjects = 5000
	// MaxSchemaValues is the number of JSON values of all kinds in a schema.
	MaxSchemaValues = jsonvalue.MaxUncounted
	// MaxPatternBytes is the longest regular expression in a schema. Patterns are Go's
	// (RE2). Matching is linear in the text, but also in the pattern.
	MaxPatternBytes = 8192
)

// Schema is a compiled JSON Schema. A Schema is immutable and safe for concurrent use.
type Schema struct {
	root *jsonschema.Schema
	// byLocation finds the schema of a violation.
	byLocation map[string]*jsonschema.Schema
	// parts has the information for evaluation that the library's schemas lack.
	parts map[*jsonschema.Schema]*parts
	// unknown begins the strings that stand for unknown values; "" for none.
	unknown string
	room    jsonvalue.Room // of checked values; nil: these must be small
	size    int64          // approximate memory in bytes
}

// WithUnknown returns the schema for values in which strings with a prefix stand for values not
// known yet. These values match everywhere. The schema itself is not changed. A condition on an
// enclosing value, for example "not", may still fail.
func (s *Schema) WithUnknown(prefix string) *Schema {
	other := *s
	other.unknown = prefix
	return &other
}

// WithRoom returns the schema for checks that take the memory of values from a room. Without a
// room, values have at most jsonvalue.MaxUncounted parts. A refusal of the room is the error of the
// check.
func (s *Schema) WithRoom(room jsonvalue.Room) *Schema {
	other := *s
	other.room = room
	return &other
}

// unknown is a value not known yet.
type unknown struct{}

// SchemaError says why a JSON document cannot be used as a schema.
type SchemaError struct {
	What   string // the role of the schema, as passed to CompileSchema
	Reason string // a line, or a line per violation of the meta-schema
}

func (e *SchemaError) Error() string { return e.What + ": " + e.Reason }

// CompileSchema compiles a JSON Schema, which must be an object. Without "$schema" the schema is
// read as 2020-12; drafts 4, 6, 7 and 2019-09 are used when declared. "format" is asserted where
// the draft says so (up to draft-07). References can only refer to the document itself and to the
// drafts' meta-schemas: nothing is ever loaded from network or disk. The parameter what names the
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
		return nil, &SchemaError{what, fmt.Sprintf(`root "type" is %s, must be "object" (the arguments of a tool are an object)`, show(typ))}
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
	var doc any
	var err error
	m := newMeter(nil)
	if spent := m.run(func() { doc, err = parseValue(m, raw, MaxSchemaDepth) }); spent != nil {
		err = spent
	}
	if err != nil {
		return nil, &SchemaError{what, unreadable(err).Error()}
	}
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, &SchemaError{what, "must be a JSON object, is " + describe(doc)}
	}
	if objects := countObjects(doc); objects > MaxSchemaObjects {
		return nil, &SchemaError{what, fmt.Sprintf("has %d objects (at most %d)", objects, MaxSchemaObjects)}
	}
	if _, locations := measure(doc); locations > maxLocations {
		return nil, &SchemaError{what, fmt.Sprintf("has names that are too long for what is nested in them: the paths of its parts have %d bytes together (at most %d)", locations, maxLocations)}
	}
	return obj, nil
}

// countObjects returns the number of objects in a value.
func countObjects(v any) (objects int) {
	switch c := v.(type) {
	case map[string]any:
		objects = 1
		for _, sub := range c {
			objects += countObjects(sub)
		}
	case []any:
		for _, sub := range c {
			objects += countObjects(sub)
		}
	}
	return objects
}

func compile(doc map[string]any, what string) (s *Schema, err error) {
	m := newMeter(nil)
	if spent := m.run(func() { s, err = compileWithin(m, doc, what) }); spent != nil {
		return nil, &SchemaError{what, "compiling it takes too long (simplify its patterns)"}
	}
	return s, err
}

func compileWithin(m *meter, doc map[string]any, what string) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	texts := &patterns{meter: m, byText: map[string]*pattern{}}
	c.UseRegexpEngine(texts.compile)
	if err := c.AddResource(baseURL, doc); err != nil {
		return nil, schemaError(m, err, doc, what)
	}
	root, err := c.Compile(baseURL)
	if err != nil {
		return nil, schemaError(m, err, doc, what)
	}
	s := &Schema{root: root, byLocation: map[string]*jsonschema.Schema{}, parts: map[*jsonschema.Schema]*parts{}}
	s.size, _ = measure(doc)
	s.size += texts.size * instructionSize
	s.index(m, root)
	if reason := s.checkChains(); reason != "" {
		return nil, &SchemaError{what, reason}
	}
	return s, nil
}

// Validate checks a JSON value. The error is a [*ValidationError], also for malformed JSON, or the
// error of spend if spend refuses more work. A nil spend allows [FreeWork]; the error is then a
// [*WorkError].
func (s *Schema) Validate(value []byte, spend Spend) error {
	return s.validate(value, spend, false)
}

// ValidateArguments is Validate for the arguments of an upstream's tool. A required property with a
// default may be left out, because the server sets the default. (Schema generators list properties
// as required if the handler always finds them set.)
func (s *Schema) ValidateArguments(value []byte, spend Spend) error {
	return s.validate(value, spend, true)
}

func (s *Schema) validate(value []byte, spend Spend, lenient bool) (err error) {
	m := s.meter(spend)
	stopped := m.run(func() {
		v, bad := parseValue(m, value, MaxValueDepth)
		if bad != nil {
			err = unreadable(bad)
			return
		}
		if lib := s.check(m, v, lenient); lib != nil {
			err = s.explain(m, lib, v)
		}
	})
	if stopped != nil {
		return stopped
	}
	return err
}

func (s *Schema) check(m *meter, v any, lenient bool) *jsonschema.ValidationError {
	e := evaluation{schema: s, meter: m, lenient: lenient}
	return e.check(v)
}
