package tools

import (
	linked "container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
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

// Schemas keeps compiled schemas by their texts, so each is compiled at its first use. When memory
// runs out, the least recently used schemas are dropped, and compiled again at their next use.
// Schemas is safe for concurrent use.
type Schemas struct {
	most int64 // bytes

	mu     sync.Mutex // a leaf
	used   int64
	byText map[[sha256.Size]byte]*linked.Element
	order  linked.List // of *keptSchema, most recently used first
}

// DefaultSchemas is how many bytes of compiled schemas are kept if nothing else is said.
const DefaultSchemas = 16 << 20

// NewSchemas returns Schemas of about most bytes at most.
func NewSchemas(most int64) *Schemas {
	return &Schemas{most: most, byText: map[[sha256.Size]byte]*linked.Element{}}
}

// Turn is called before work on the host with its size, in units of a [Spend]. It may wait until
// the caller may compute, and returns a function that ends the turn.
type Turn func(units uint64) (end func())

// compileWork is the work of compiling a byte of a schema.
const compileWork = 1000

// keptSchema is compiled once.
type keptSchema struct {
	key    [sha256.Size]byte
	once   sync.Once
	done   atomic.Bool
	schema *Schema
	err    error
	size   int64 // guarded by Schemas.mu
}

// Input is CompileInputSchema. A turn other than nil is called before any compilation.
func (s *Schemas) Input(raw []byte, what string, turn Turn) (*Schema, error) {
	return s.get("input", raw, what, turn, CompileInputSchema)
}

// Any is CompileSchema in the same way.
func (s *Schemas) Any(raw []byte, what string, turn Turn) (*Schema, error) {
	return s.get("any", raw, what, turn, CompileSchema)
}

func (s *Schemas) get(kind string, raw []byte, what string, turn Turn, compile func([]byte, string) (*Schema, error)) (*Schema, error) {
	k := s.kept(sha256.Sum256(fmt.Appendf(nil, "%s %s %s", kind, what, raw)))
	if turn != nil && !k.done.Load() { // other callers wait for their own turn, as long as their runs last
		defer turn(uint64(len(raw)) * compileWork)()
	}
	k.once.Do(func() {
		defer k.done.Store(true)
		k.schema, k.err = compile(raw, what)
		size := int64(keptOverhead)
		if k.schema != nil {
			size += k.schema.size
		} else if k.err != nil {
			size += int64(len(k.err.Error()))
		}
		s.grown(k, size)
	})
	return k.schema, k.err
}

// keptOverhead is the memory of an entry in Schemas besides the schema, in bytes.
const keptOverhead = 512

// kept returns the entry of a key, which may not be compiled yet.
func (s *Schemas) kept(key [sha256.Size]byte) *keptSchema {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byText[key]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*keptSchema)
	}
	k := &keptSchema{key: key}
	s.byText[key] = s.order.PushFront(k)
	return k
}

// grown records the memory of a schema, and drops other schemas.
func (s *Schemas) grown(k *keptSchema, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byText[k.key]; e == nil || e.Value != k {
		return // the entry was dropped during its compilation
	}
	k.size = size
	s.used += size
	for e := s.order.Back(); e != nil && s.used > s.most; {
		old, before := e.Value.(*keptSchema), e.Prev()
		if old.size > 0 { // otherwise the entry is being compiled
			s.used -= old.size
			delete(s.byText, old.key)
			s.order.Remove(e)
		}
		e = before
	}
}

// maxLocations is the largest total, in bytes, of the paths from the root to all places in a
// schema. The compiler keeps a path for each.
const maxLocations = 4 << 20

// The sizes of compiled schemas, in bytes, as measured.
const (
	schemaSize      = 1300 // a schema in the schema
	valueSize       = 128  // a JSON value of another kind
	instructionSize = 70   // an instruction of a regular expression
)

// measure returns about how many bytes a document takes when compiled, and the share of these bytes
// for paths of schemas.
func measure(doc any) (size, locations int64) {
	var walk func(v any, at int64)
	walk = func(v any, at int64) {
		size += valueSize
		switch c := v.(type) {
		case map[string]any:
			size, locations = size+schemaSize, locations+at
			for name, sub := range c {
				size += int64(2 * len(name))
				walk(sub, at+escapedLength(name))
			}
		case []any:
			for _, sub := range c {
				walk(sub, at+6)
			}
		case bool: // which may be a schema
			size, locations = size+schemaSize/4, locations+at
		case string:
			size += int64(2 * len(c))
		}
	}
	walk(doc, int64(len(baseURL)+1))
	return size + 2*locations, locations
}

// escapedLength returns about how many bytes a name has in the path of a JSON pointer, as a
// fragment of a URL.
func escapedLength(name string) int64 {
	n := 1
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '_', b == '-', b == '.':
			n++
		default:
			n += 4
		}
	}
	return int64(n)
}

// baseURL is the invented address of the document being compiled. Without an address, the library
// would derive a file name from the working directory.
const baseURL = "tool:///schema"

// errNoLoad is the error of every attempt to load a document.
var errNoLoad = errors.New("schemas are never loaded from network or disk")

// noLoader refuses references to other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errNoLoad }

// schemaError converts an error of the library into a message with a remedy.
func schemaError(m *meter, err error, doc map[string]any, what string) error {
	var (
		load    *jsonschema.LoadURLError
		invalid *jsonschema.SchemaValidationError
		pattern *jsonschema.InvalidRegexError
		ptr     *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
		draft   *jsonschema.UnsupportedDraftError
	)
	reason := local(err.Error())
	switch {
	case errors.As(err, &load):
		reason = loadReason(load.URL, doc)
	case errors.As(err, &draft):
		reason = unknownDraft(draft.URL)
	case errors.As(err, &invalid):
		reason = invalidReason(m, invalid, doc)
	case errors.As(err, &pattern):
		reason = fmt.Sprintf("%s: pattern %s cannot be used: %v (patterns are RE2: no look-around, no back-references)",
			local(pattern.URL), show(display.Clip(pattern.Regex, 80)), display.Clip(pattern.Err.Error(), 200))
	case errors.As(err, &ptr):
		reason = fmt.Sprintf(`"$ref" to %s: nothing is there`, local(ptr.URL))
	case errors.As(err, &anchor):
		reason = fmt.Sprintf(`"$ref" to %s: there is no such anchor`, local(anchor.Reference))
	}
	return &SchemaError{what, reason}
}

func loadReason(address string, doc map[string]any) string {
	if declared, ok := doc["$schema"].(string); ok && strings.TrimSuffix(declared, "#") == address {
		return unknownDraft(declared)
	}
	return fmt.Sprintf(`reference to %q: %v (copy what it refers to under "$defs" and refer to "#/$defs/NAME")`, local(address), errNoLoad)
}

func unknownDraft(address string) string {
	return fmt.Sprintf(`"$schema" %q is not known (leave it out for 2020-12, or declare 2020-12, 2019-09, draft-07, draft-06 or draft-04)`, address)
}

// invalidReason lists the violations of the meta-schema.
func invalidReason(m *meter, e *jsonschema.SchemaValidationError, doc map[string]any) string {
	var lib *jsonschema.ValidationError
	if !errors.As(e.Err, &lib) {
		return local(e.Error())
	}
	// The error refers to the part of the document being compiled.
	_, frag, _ := strings.Cut(e.URL, "#")
	part := jsontext.Pointer(frag)
	if plain, err := url.PathUnescape(frag); err == nil {
		part = jsontext.Pointer(plain)
	}
	v, _ := lookup(doc, slices.Collect(part.Tokens()))
	none := &Schema{byLocation: map[string]*jsonschema.Schema{}}
	found := none.explain(m, lib, v)
	for i := range found.Violations {
		found.Violations[i].Pointer = string(part) + found.Violations[i].Pointer
	}
	return found.Error()
}

// local removes the invented base URL from the addresses in a text.
func local(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, baseURL, ""), "tool:///", "")
}

// parts is the information for evaluation of a schema that the library's form lacks.
type parts struct {
	enum     valueSet
	patterns []patternSchema // "patternProperties", sorted by pattern
	resource *jsonschema.Schema
	anchors  map[string]*jsonschema.Schema // of a resource: targets of dynamic references
	// The names of the anchors, sorted.
	dependencies, dependentSchemas, dependentRequired []string
}

// index visits each compiled schema once.
func (s *Schema) index(m *meter, sch *jsonschema.Schema) {
	if sch == nil || s.parts[sch] != nil {
		return
	}
	m.take(schemaCost)
	p := &parts{
		resource: resourceOf(sch), anchors: anchorsOf(sch),
		dependencies:      slices.Sorted(maps.Keys(sch.Dependencies)),
		dependentSchemas:  slices.Sorted(maps.Keys(sch.DependentSchemas)),
		dependentRequired: slices.Sorted(maps.Keys(sch.DependentRequired)),
	}
	s.parts[sch] = p
	s.byLocation[sch.Location] = sch
	if sch.Enum != nil {
		p.enum = newValueSet(m, sch.Enum.Values)
	}
	for re, sub := range sch.PatternProperties {
		p.patterns = append(p.patterns, patternSchema{re.(*pattern), sub})
	}
	slices.SortFunc(p.patterns, func(a, b patternSchema) int { return strings.Compare(a.String(), b.String()) })
	e := subschemasOf(sch)
	for _, sub := range slices.Concat(e.same, e.names, e.children) {
		s.index(m, sub)
	}
	s.index(m, p.resource)
	for _, sub := range p.anchors {
		s.index(m, sub)
	}
}

// subschemas are the subschemas of a schema, by the part of a value they apply to.
type subschemas struct {
	same     []*jsonschema.Schema // the same value
	names    []*jsonschema.Schema // the names of the properties
	children []*jsonschema.Schema // the properties or items
}

func subschemasOf(s *jsonschema.Schema) subschemas {
	var e subschemas
	add := func(list *[]*jsonschema.Schema, subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				*list = append(*list, sub)
			}
		}
	}
	anyOf := func(v any) []*jsonschema.Schema {
		switch v := v.(type) {
		case *jsonschema.Schema:
			return []*jsonschema.Schema{v}
		case []*jsonschema.Schema:
			return v
		}
		return nil
	}
	add(&e.same, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		add(&e.same, s.DynamicRef.Ref)
	}
	add(&e.same, s.AllOf...)
	add(&e.same, s.AnyOf...)
	add(&e.same, s.OneOf...)
	for _, k := range slices.Sorted(maps.Keys(s.Dependencies)) {
		add(&e.same, anyOf(s.Dependencies[k])...)
	}
	for _, k := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		add(&e.same, s.DependentSchemas[k])
	}
	add(&e.names, s.PropertyNames)
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		add(&e.children, s.Properties[k])
	}
	for _, sub := range s.PatternProperties {
		add(&e.children, sub)
	}
	add(&e.children, anyOf(s.AdditionalProperties)...)
	add(&e.children, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	add(&e.children, s.PrefixItems...)
	add(&e.children, anyOf(s.Items)...)
	add(&e.children, anyOf(s.AdditionalItems)...)
	return e
}

// nameKind is a violation of "propertyNames" by a property.
type nameKind struct {
	name string
	why  *jsonschema.ValidationError
}

func (*nameKind) KeywordPath() []string { return []string{"propertyNames"} }

func (k *nameKind) LocalizedString(*message.Printer) string { return "property name not allowed" }

// A schema of a few hundred bytes can keep a validator busy for years: n definitions, each
// referring twice to the next, are 2^n evaluations. The meter limits the evaluations, this file the
// stack.

// maxChain is the number of schemas that may apply one another to the same value in a row. Together
// with MaxValueDepth maxChain limits the stack of an evaluation and the depth of the tree of
// errors.
const maxChain = 32

// costKind is the error for a validation that needs too much stack.
type costKind struct{}

func (*costKind) KeywordPath() []string { return nil }

func (*costKind) LocalizedString(*message.Printer) string {
	return "the schema is too complicated to check this value (simplify its recursive or repeated $ref)"
}

// chains counts how many schemas apply one another to the same value in a row.
type chains struct {
	length map[*jsonschema.Schema]int
	cycle  *jsonschema.Schema // the first schema found to lead back to itself
}

// checkChains says why the longest chain is too long, or returns "". A cycle is an endless
// chain.
func (s *Schema) checkChains() string {
	c := chains{length: map[*jsonschema.Schema]int{}}
	for _, at := range slices.Sorted(maps.Keys(s.byLocation)) {
		switch n := c.from(s.byLocation[at]); {
		case n == endless:
			return fmt.Sprintf(`"$ref" cycle at %s: it leads back to itself without going into the value, so it can never be satisfied`, local(c.cycle.Location))
		case n > maxChain:
			return fmt.Sprintf(`%s: more than %d subschemas apply to the same value in a row (shorten the chain of "$ref")`, local(at), maxChain)
		}
	}
	return ""
}

const endless = 1 << 30

func (c *chains) from(s *jsonschema.Schema) int {
	const open = -1
	switch n := c.length[s]; {
	case n == open:
		if c.cycle == nil {
			c.cycle = s
		}
		return endless
	case n > 0:
		return n
	}
	c.length[s] = open
	longest := 0
	for _, sub := range subschemasOf(s).same {
		longest = max(longest, c.from(sub))
	}
	c.length[s] = min(longest+1, endless)
	return c.length[s]
}
