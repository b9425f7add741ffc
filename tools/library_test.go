package tools

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var long = flag.Bool("long", false, "compare more schemas with the library")

// libraryVerdict validates a value with the library alone, using only our loader, which
// loads nothing. ok is false if the library does not accept the schema or the value.
func libraryVerdict(raw, value []byte) (violations []Violation, ok bool) {
	m := newMeter(nil)
	doc, err := parseValue(m, raw, MaxSchemaDepth)
	if err != nil {
		return nil, false
	}
	v, err := parseValue(m, value, MaxValueDepth)
	if err != nil {
		return nil, false
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if c.AddResource(baseURL, doc) != nil {
		return nil, false
	}
	root, err := c.Compile(baseURL)
	if err != nil {
		return nil, false
	}
	var lib *jsonschema.ValidationError
	if !errors.As(root.Validate(v), &lib) {
		return nil, true
	}
	all := &Schema{root: root, byLocation: map[string]*jsonschema.Schema{}}
	all.locate(root)
	return all.explain(m, lib, v).Violations, true
}

// locate is index without the parts that only our evaluation needs.
func (s *Schema) locate(sch *jsonschema.Schema) {
	if s.byLocation[sch.Location] != nil {
		return
	}
	s.byLocation[sch.Location] = sch
	e := subschemasOf(sch)
	for _, sub := range slices.Concat(e.same, e.names, e.children) {
		s.locate(sub)
	}
}

// sameAsLibrary compares our verdict and messages with those of the library. Errors about
// names of properties are ours alone. It reports whether the schema could be compiled, and
// whether the value was valid.
func sameAsLibrary(t *testing.T, schema, value []byte) (used, valid bool) {
	t.Helper()
	s, err := CompileSchema(schema, "schema")
	if err != nil {
		return false, false
	}
	theirs, ok := libraryVerdict(schema, value)
	if !ok {
		return false, false
	}
	err = s.Validate(value, nil)
	var ours *ValidationError
	if err != nil && !errors.As(err, &ours) {
		return false, false // too much work
	}
	if (ours == nil) != (theirs == nil) {
		t.Fatalf("schema %s\nvalue %s\nours    %v\nlibrary %v", schema, value, err, theirs)
	}
	if ours == nil {
		return true, true
	}
	if !strings.Contains(string(schema), "propertyNames") && len(ours.Violations) < MaxViolations &&
		!slices.Equal(ours.Violations, theirs) {
		t.Fatalf("schema %s\nvalue %s\nours\n%v\nlibrary\n%v", schema, value, err, &ValidationError{theirs})
	}
	return true, false
}

// schemaMaker generates random schemas: small ones with few names, so that most keywords
// apply to something.
type schemaMaker struct {
	*rand.Rand
	draft int
	defs  int
}

var draftURLs = map[int]string{
	4: "http://json-schema.org/draft-04/schema#", 6: "http://json-schema.org/draft-06/schema#", 7: "http://json-schema.org/draft-07/schema#",
	2019: "https://json-schema.org/draft/2019-09/schema", 2020: "https://json-schema.org/draft/2020-12/schema",
}

func pick[T any](r *schemaMaker, from ...T) T { return from[r.IntN(len(from))] }

func (r *schemaMaker) names(n int) []any {
	all := []any{"a", "b", "c", "ab"}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

func (r *schemaMaker) value(depth int) any {
	n := r.IntN(10)
	if depth <= 0 {
		n = r.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2, 3:
		return json.Number(pick(r, "0", "1", "2", "1.0", "-1", "0.5", "1e2", "100", "-0", "3"))
	case 4, 5:
		return pick(r, "", "a", "b", "ab", "é", "192.0.2.1", "2020-01-01", "/a~1", "a b", "1", "(", "http://x/%41")
	case 6, 7:
		items := []any{}
		for range r.IntN(5) {
			items = append(items, r.value(depth-1))
		}
		return items
	}
	obj := map[string]any{}
	for _, name := range r.names(r.IntN(5)) {
		obj[name.(string)] = r.value(depth - 1)
	}
	return obj
}

// schema returns a schema with a few keywords of its draft.
func (r *schemaMaker) schema(depth int) any {
	if r.draft > 4 && r.IntN(12) == 0 {
		return r.IntN(3) > 0
	}
	s := map[string]any{}
	for range r.IntN(4) {
		r.keyword(s, depth)
	}
	return s
}

func (r *schemaMaker) list(depth int) []any {
	subs := []any{r.schema(depth)}
	for range r.IntN(3) {
		subs = append(subs, r.schema(depth))
	}
	return subs
}

func (r *schemaMaker) byName(depth int, names ...any) map[string]any {
	m := map[string]any{}
	for _, name := range names {
		m[name.(string)] = r.schema(depth)
	}
	return m
}

func (r *schemaMaker) keyword(s map[string]any, depth int) {
	if depth <= 0 || r.IntN(2) == 0 {
		r.leaf(s)
		return
	}
	d := depth - 1
	keywords := []func(){
		func() { s["properties"] = r.byName(d, r.names(2)...) },
		func() { s["patternProperties"] = r.byName(d, pick[any](r, "a", "^b", "c$", ".")) },
		func() { s["additionalProperties"] = r.schema(d) },
		func() { s["allOf"] = r.list(d) },
		func() { s["anyOf"] = r.list(d) },
		func() { s["oneOf"] = r.list(d) },
		func() { s["not"] = r.schema(d) },
		func() { s["$ref"] = fmt.Sprintf("#/definitions/d%d", r.IntN(r.defs)) },
		func() {
			if r.draft < 2020 {
				s["items"] = pick[any](r, r.schema(d), r.list(d))
				s["additionalItems"] = r.schema(d)
			} else {
				s["prefixItems"], s["items"] = r.list(d), r.schema(d)
			}
		},
		func() { s["dependencies"] = map[string]any{"a": r.names(2), "b": r.schema(d)} },
	}
	if r.draft >= 6 {
		keywords = append(keywords, func() { s["contains"] = r.schema(d) }, func() { s["propertyNames"] = r.schema(0) })
	}
	if r.draft >= 7 {
		keywords = append(keywords, func() { s["if"], s["then"], s["else"] = r.schema(d), r.schema(d), r.schema(d) })
	}
	if r.draft >= 2019 {
		keywords = append(keywords,
			func() { s["dependentSchemas"] = r.byName(d, r.names(2)...) },
			func() { s["unevaluatedProperties"] = r.schema(d) },
			func() { s["unevaluatedItems"] = r.schema(d) },
			func() { s["contains"], s["minContains"], s["maxContains"] = r.schema(d), r.IntN(3), r.IntN(3) },
			func() { s["unevaluatedItems"], s["allOf"] = r.schema(d), r.list(d) },
			func() { s["unevaluatedProperties"], s["anyOf"] = r.schema(d), r.list(d) })
	}
	switch r.draft {
	case 2019:
		keywords = append(keywords, func() { s["$recursiveRef"] = "#" })
	case 2020:
		keywords = append(keywords, func() { s["$dynamicRef"] = "#t" })
	}
	keywords[r.IntN(len(keywords))]()
}

// leaf adds a keyword without subschemas.
func (r *schemaMaker) leaf(s map[string]any) {
	n := r.IntN(3)
	keywords := []func(){
		func() {
			s["type"] = pick[any](r, "null", "boolean", "number", "integer", "string", "array", "object", []any{"string", "integer"})
		},
		func() { s["type"] = pick[any](r, "object", "array") },
		func() { s["enum"] = []any{r.value(2), "a", json.Number("1.0"), map[string]any{"a": json.Number("1")}} },
		func() { s["minimum"], s["maximum"] = n, n+1 },
		func() { s["multipleOf"] = json.Number(pick(r, "1", "0.5", "2")) },
		func() { s["minLength"], s["maxLength"] = n, n+1 },
		func() { s["pattern"] = pick(r, "a", "^a", "b$", "^.$", `\d`) },
		func() { s["format"] = pick(r, "ipv4", "date", "uri", "json-pointer", "regex", "relative-json-pointer") },
		func() { s["minItems"], s["maxItems"] = n, n+2 },
		func() { s["uniqueItems"] = true },
		func() { s["minProperties"], s["maxProperties"] = n, n+2 },
		func() { s["required"] = r.names(1 + n) },
	}
	if r.draft >= 6 {
		keywords = append(keywords, func() { s["const"] = r.value(2) }, func() { s["exclusiveMinimum"], s["exclusiveMaximum"] = n, n+2 })
	}
	if r.draft >= 2019 {
		keywords = append(keywords, func() { s["dependentRequired"] = map[string]any{"a": r.names(2)} })
	}
	keywords[r.IntN(len(keywords))]()
}

func (r *schemaMaker) document() []byte {
	r.draft, r.defs = pick(r, 4, 6, 7, 2019, 2020), 3
	root, ok := r.schema(3).(map[string]any)
	for !ok {
		root, ok = r.schema(3).(map[string]any)
	}
	defs := map[string]any{}
	for i := range r.defs {
		def := r.schema(2)
		if m, ok := def.(map[string]any); ok && r.draft == 2020 && r.IntN(2) == 0 {
			m["$dynamicAnchor"] = "t"
			if r.IntN(2) == 0 {
				m["$id"] = fmt.Sprintf("tool:///d%d", i)
			}
		}
		defs[fmt.Sprintf("d%d", i)] = def
	}
	root["$schema"], root["definitions"] = draftURLs[r.draft], defs
	switch {
	case r.draft == 2019 && r.IntN(2) == 0:
		root["$recursiveAnchor"] = true
	case r.draft == 2020 && r.IntN(2) == 0:
		root["$dynamicAnchor"] = "t"
	}
	raw, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return raw
}

// TestSameAsLibrary compares our evaluation with that of the library, for random schemas
// and values.
func TestSameAsLibrary(t *testing.T) {
	t.Parallel()
	rounds := 200
	if *long {
		rounds = 800
	}
	used, valid := map[int]int{}, map[int]int{}
	for i := range rounds {
		r := &schemaMaker{Rand: rand.New(rand.NewPCG(1, uint64(i)))}
		schema := r.document()
		for range 8 {
			value, err := json.Marshal(r.value(4))
			if err != nil {
				t.Fatal(err)
			}
			if u, v := sameAsLibrary(t, schema, value); u {
				used[r.draft]++
				if v {
					valid[r.draft]++
				}
			}
		}
	}
	for draft := range draftURLs {
		if used[draft] < rounds || valid[draft] < used[draft]/20 || valid[draft] > used[draft]*19/20 {
			t.Errorf("draft %d: %d values were compared, %d of them valid: not enough to go by", draft, used[draft], valid[draft])
		}
	}
	t.Logf("compared %v, valid %v", used, valid)
}

// FuzzSameAsLibrary is TestSameAsLibrary for arbitrary input.
func FuzzSameAsLibrary(f *testing.F) {
	for i := range 50 {
		r := &schemaMaker{Rand: rand.New(rand.NewPCG(2, uint64(i)))}
		schema := r.document()
		value, err := json.Marshal(r.value(4))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(schema, value)
	}
	f.Add([]byte(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`), []byte(`{"properties":{"a":{"type":5}}}`))
	f.Add([]byte(`{"$ref":"https://json-schema.org/draft/2019-09/schema"}`), []byte(`{"properties":{"a":{"type":"array","items":{"type":"x"}}}}`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if len(schema)+len(value) > 1<<14 {
			return
		}
		sameAsLibrary(t, schema, value)
	})
}
