package approval

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Subject is everything to which an approval is bound. An approval for a subject is worth nothing
// for another subject. The digests of arguments are made with a key of the store, so that guessed
// arguments cannot be checked against a digest.
type Subject struct {
	Kind       policy.Kind `json:"kind"`
	Target     string      `json:"target"`            // policy.Request.Target
	Arguments  string      `json:"arguments"`         // digest of the bytes, lower-case hex
	Shape      string      `json:"shape"`             // digest of the shape; see shapeOf
	Definition string      `json:"definition"`        // pins.Digest of the definition; "" for none
	Version    string      `json:"version,omitempty"` // policy.Request.Version
	Rule       string      `json:"rule"`
	// Client is the name of the client's token. Client is "" for all clients without a token, whose
	// own claims do not tell clients apart.
	Client string `json:"client"`
	Token  bool   `json:"token"` // Client is the name of a token
	// Principal tells apart the credentials of clients whose token has no name; "" otherwise.
	Principal string `json:"principal,omitempty"`
}

// subject returns the subject of a call, and the digest of the whole subject.
func (q *Queue) subject(ctx context.Context, ask route.Asking) (s Subject, digest string, err error) {
	keys, err := q.keys(ctx)
	if err != nil {
		return s, "", err
	}
	r := ask.Request
	if len(r.Name) > maxWhole {
		return s, "", fmt.Errorf("its name is too long to show it to people (%d bytes)", len(r.Name))
	}
	arguments, err := canonical(r.Arguments, true)
	if err != nil {
		return s, "", fmt.Errorf("its arguments cannot be read in one way only: %w", err)
	}
	shape, err := shapeOf(arguments, r.Definition)
	if r.Server == policy.BuiltinTools { // their texts are scripts and plans, and no two are alike
		shape = arguments
	}
	if err != nil {
		return s, "", fmt.Errorf("the shape of its arguments: %w", err)
	}
	s = Subject{
		Kind: r.Kind, Target: r.Target(), Version: r.Version, Rule: ask.Decision.Rule,
		Arguments: keys.digest("values", r.Arguments), Shape: keys.digest("shape", shape),
	}
	if r.Definition != nil {
		s.Definition = pins.Digest(r.Definition)
	}
	if r.Caller.Token {
		s.Client, s.Token = r.Caller.Client, true
	} else {
		s.Principal = r.Caller.Principal
	}
	return s, keys.digest("subject", wire.Marshal(s)), nil
}

// canonical returns a JSON object without white space and needless escapes, with sorted members if
// sorted is set; nil counts as an empty object. A number keeps its digits. canonical fails if a
// name appears twice, because readers differ about which value counts.
func canonical(raw []byte, sorted bool) ([]byte, error) {
	if raw == nil {
		return []byte("{}"), nil
	}
	value := jsontext.Value(append([]byte(nil), raw...))
	err := value.Format(jsontext.ReorderRawObjects(sorted), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowInvalidUTF8(false))
	return value, err
}

// keys are the keys for the digests of a Queue.
type keys struct{ digests []byte }

func newKeys(secret []byte) *keys {
	return &keys{documents.MAC(secret, "mcp-metatool approvals: digests")}
}

// digest returns the keyed digest of a text of some kind, in lower-case hex.
func (k *keys) digest(kind string, text []byte) string {
	return hex.EncodeToString(documents.MAC(k.digests, kind, string(text)))
}

// The shape of arguments has the names of all members and the types of all values, at every depth.
// Values that choose a tool's action are kept: true, false and null, and all strings and numbers
// except values that the tool's inputSchema proves to be free; see schemas. Of a free value only
// the type is kept. Of an array, the different shapes of its elements count, but neither their
// order nor their number.

// maxShapeDepth bounds the nesting of arguments whose shape is remembered. The depth of messages is
// bounded elsewhere.
const maxShapeDepth = 1000

// shapeOf returns the shape of canonical arguments as text. definition is the tool's definition;
// nil for none.
func shapeOf(arguments, definition []byte) ([]byte, error) {
	root, ok := wire.Get(definition, "inputSchema")
	w := shapeWriter{r: reader{root: root, left: maxSchemaWork}}
	s := schemas{odd: !ok}
	if ok {
		w.r.add(&s, root, true, 0)
	}
	err := w.write(arguments, &s, 0)
	return w.Bytes(), err
}

// shapeWriter writes a shape.
type shapeWriter struct {
	bytes.Buffer
	r reader
}

func (w *shapeWriter) write(value []byte, s *schemas, depth int) error {
	if depth > maxShapeDepth {
		return fmt.Errorf("nested deeper than %d levels", maxShapeDepth)
	}
	switch k := kindOf(value); {
	case k == object:
		return w.object(value, s, depth)
	case k == array:
		return w.array(value, s, depth)
	case k == text && s.free(k):
		w.WriteString("string")
	case k == number && s.free(k):
		w.WriteString("number")
	default:
		w.Write(value)
	}
	return nil
}

func (w *shapeWriter) object(value []byte, s *schemas, depth int) error {
	members, ok := wire.Members(value)
	if !ok {
		return fmt.Errorf("not an object: %.20q", value)
	}
	w.WriteByte('{')
	for _, m := range members {
		w.Write(wire.Quote(m.Name))
		w.WriteByte(':')
		of := w.r.member(s, m.Name)
		if err := w.write(m.Value, &of, depth+1); err != nil {
			return err
		}
		w.WriteByte(',')
	}
	w.WriteByte('}')
	return nil
}

func (w *shapeWriter) array(value []byte, s *schemas, depth int) error {
	elements, err := wire.Elements(value)
	if err != nil {
		return err
	}
	begin, fixed := w.Len(), s.fixed()
	shapes := make([][]byte, len(elements))
	var of schemas
	for i, e := range elements {
		if i < fixed {
			of = w.r.element(s, i)
		}
		at := w.Len()
		if err := w.write(e, &of, depth+1); err != nil {
			return err
		}
		shapes[i] = bytes.Clone(w.Bytes()[at:])
	}
	w.Truncate(begin)
	slices.SortFunc(shapes, bytes.Compare)
	shapes = slices.CompactFunc(shapes, bytes.Equal)
	w.WriteByte('[')
	for _, s := range shapes {
		w.Write(s)
		w.WriteByte(',')
	}
	w.WriteByte(']')
	return nil
}

// A shape omits a value only where the tool's inputSchema proves the value free: a schema that
// applies to the value allows any text or number, no schema that may apply lists the possible
// values, and every keyword of these schemas is understood. Every branch of anyOf, oneOf and if
// counts as applying.

// Bounds for reading a schema, since a server may have written a large schema. Beyond the bounds,
// every value is kept.
const (
	maxSchemaDepth = 64      // nested schemas that apply to the same value
	maxSchemas     = 1000    // schemas that may apply to the same value
	maxSchemaWork  = 4 << 20 // bytes read for a shape
)

// schemas are all schemas that may apply to a value.
type schemas struct {
	all  []schema
	odd  bool // something about the value is not understood
	seen map[*byte]bool
}

// kind is a set of types of values.
type kind uint8

const (
	text kind = 1 << iota
	number
	object
	array
	other // true, false, null
)

var kinds = map[string]kind{
	"string": text, "number": number, "integer": number, "object": object, "array": array, "boolean": other, "null": other,
}

// schema has the keywords of a schema about a value itself, without the nested schemas that apply
// to the same value.
type schema struct {
	proves  bool // the schema applies to every valid value; otherwise the value may be present only to be refused
	typed   bool
	kinds   kind // all without a type
	choice  bool // the schema lists the values
	pattern bool
	// Raw; nil if absent. doubtful are schemas that apply to some members or elements.
	properties, additional, items, rest []byte
	prefix                              [][]byte
	doubtfulMembers, doubtfulElements   [][]byte
}

// reader reads the schemas of a tool.
type reader struct {
	root []byte
	left int // bytes that may still be read
}

// spend reports whether the budget still covers some bytes.
func (r *reader) spend(raw []byte) bool {
	r.left -= len(raw) + 1
	return r.left >= 0
}

// add adds a schema, and all nested schemas that apply to the same value.
func (r *reader) add(to *schemas, raw []byte, proves bool, depth int) {
	switch {
	case depth > maxSchemaDepth, len(to.all) >= maxSchemas, len(raw) == 0, !r.spend(raw):
		to.odd = true
		return
	case string(raw) == "true", string(raw) == "false":
		return
	}
	if to.seen[&raw[0]] {
		return
	}
	if to.seen == nil {
		to.seen = map[*byte]bool{}
	}
	to.seen[&raw[0]] = true
	members, ok := wire.Members(raw)
	if !ok {
		to.odd = true
		return
	}
	s := schema{proves: proves, kinds: text | number | object | array | other}
	names := map[string]bool{}
	for _, m := range members {
		if names[m.Name] { // readers differ about which of two equal names counts
			to.odd = true
		}
		names[m.Name] = true
		r.keyword(to, &s, m, depth)
	}
	to.all = append(to.all, s)
}

// keyword reads a member of a schema.
func (r *reader) keyword(to *schemas, s *schema, m wire.Member, depth int) {
	switch m.Name {
	case "type":
		s.typed, s.kinds = true, kindsOf(m.Value)
		to.odd = to.odd || s.kinds == 0
	case "enum", "const":
		s.choice = true
	case "pattern":
		s.pattern = true
	case "$ref":
		if of := r.resolve(m.Value); of != nil {
			r.add(to, of, s.proves, depth+1)
		} else {
			to.odd = true
		}
	case "allOf", "anyOf", "oneOf":
		of, err := wire.Elements(m.Value)
		to.odd = to.odd || err != nil
		for _, one := range of {
			r.add(to, one, s.proves, depth+1)
		}
	case "then", "else":
		r.add(to, m.Value, s.proves, depth+1)
	case "if", "not":
		r.add(to, m.Value, false, depth+1)
	case "dependentSchemas":
		of, ok := wire.Members(m.Value)
		to.odd = to.odd || !ok
		for _, one := range of {
			r.add(to, one.Value, false, depth+1)
		}
	case "properties":
		s.properties = m.Value
	case "additionalProperties":
		s.additional = m.Value
	case "patternProperties":
		of, ok := wire.Members(m.Value)
		to.odd = to.odd || !ok
		for _, one := range of {
			s.doubtfulMembers = append(s.doubtfulMembers, one.Value)
		}
	case "unevaluatedProperties":
		s.doubtfulMembers = append(s.doubtfulMembers, m.Value)
	case "items":
		s.items = m.Value
		if m.Value[0] == '[' { // before 2020-12
			s.items = nil
			s.prefixed(to, m.Value)
		}
	case "prefixItems":
		s.prefixed(to, m.Value)
	case "additionalItems":
		s.rest = m.Value
	case "contains", "unevaluatedItems":
		s.doubtfulElements = append(s.doubtfulElements, m.Value)
	case "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor":
		to.odd = to.odd || depth > 0 // references may lead elsewhere
	case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$defs", "definitions",
		"format", "contentEncoding", "contentMediaType", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"multipleOf", "required", "dependentRequired", "propertyNames", "minProperties", "maxProperties",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "nullable", "discriminator":
		// They name no values.
	default:
		to.odd = true
	}
}

func (s *schema) prefixed(to *schemas, raw []byte) {
	of, err := wire.Elements(raw)
	to.odd = to.odd || err != nil
	s.prefix = append(s.prefix, of...)
}

// kindsOf returns the kinds that a type names; 0 if the type cannot be read.
func kindsOf(raw []byte) (all kind) {
	names := [][]byte{raw}
	if raw[0] == '[' {
		names, _ = wire.Elements(raw)
	}
	for _, name := range names {
		text, _ := wire.Text(name)
		if kinds[text] == 0 {
			return 0
		}
		all |= kinds[text]
	}
	return all
}

// resolve returns the target of a reference within the schema; nil for another reference.
func (r *reader) resolve(raw []byte) []byte {
	ref, ok := wire.Text(raw)
	pointer, local := strings.CutPrefix(ref, "#")
	if !ok || !local || strings.Contains(pointer, "%") || pointer != "" && pointer[0] != '/' {
		return nil
	}
	at := r.root
	for i, step := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		if !r.spend(at) || len(at) == 0 {
			return nil
		}
		if at[0] == '[' {
			of, err := wire.Elements(at)
			n, bad := strconv.Atoi(step)
			if err != nil || bad != nil || n < 0 || n >= len(of) {
				return nil
			}
			at = of[n]
			continue
		}
		if at, ok = wire.Get(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); !ok {
			return nil
		}
	}
	return at
}

// free reports whether a value of a kind is proven to be free.
func (s *schemas) free(k kind) bool {
	proven := false
	for i := range s.all {
		of := &s.all[i]
		if of.kinds&k == 0 {
			continue
		}
		if of.choice || of.pattern && k == text {
			return false
		}
		proven = proven || of.typed && of.proves
	}
	return proven && !s.odd
}

// within begins the schemas of the contents of a value of a kind. If the value's own schemas are
// not understood, or list its values, the same holds for the contents.
func (s *schemas) within(k kind) schemas {
	return schemas{odd: s.odd || slices.ContainsFunc(s.all, func(of schema) bool { return of.kinds&k != 0 && of.choice })}
}

// member returns the schemas of a member of an object.
func (r *reader) member(s *schemas, name string) schemas {
	of := s.within(object)
	for i := range s.all {
		in := &s.all[i]
		if in.kinds&object == 0 || of.odd {
			continue
		}
		if !r.spend(in.properties) {
			of.odd = true
			break
		}
		if own, ok := wire.Get(in.properties, name); ok {
			r.add(&of, own, in.proves, 1)
		} else if in.additional != nil {
			r.add(&of, in.additional, in.proves && in.doubtfulMembers == nil, 1)
		}
		for _, one := range in.doubtfulMembers {
			r.add(&of, one, false, 1)
		}
	}
	return of
}

// element returns the schemas of an element of an array.
func (r *reader) element(s *schemas, n int) schemas {
	of := s.within(array)
	for i := range s.all {
		in := &s.all[i]
		if in.kinds&array == 0 || of.odd {
			continue
		}
		switch {
		case n < len(in.prefix):
			r.add(&of, in.prefix[n], in.proves, 1)
		case in.items != nil:
			r.add(&of, in.items, in.proves, 1)
		case in.rest != nil && in.prefix != nil:
			r.add(&of, in.rest, in.proves, 1)
		}
		for _, one := range in.doubtfulElements {
			r.add(&of, one, false, 1)
		}
	}
	return of
}

// fixed returns for how many elements element must be asked; all later elements are like the last
// of these.
func (s *schemas) fixed() int {
	most := 0
	for i := range s.all {
		most = max(most, len(s.all[i].prefix))
	}
	return most + 1
}

// kindOf returns the kind of a raw value.
func kindOf(value []byte) kind {
	switch {
	case value[0] == '"':
		return text
	case bytes.IndexByte([]byte("-0123456789"), value[0]) >= 0:
		return number
	case value[0] == '{':
		return object
	case value[0] == '[':
		return array
	}
	return other
}
