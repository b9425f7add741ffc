package tools

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
