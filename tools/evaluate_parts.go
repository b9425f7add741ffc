package tools

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

func (f *frame) object(obj map[string]any) {
	s := f.s
	if s.MinProperties != nil && len(obj) < *s.MinProperties {
		f.add(&kind.MinProperties{Got: len(obj), Want: *s.MinProperties})
	}
	if s.MaxProperties != nil && len(obj) > *s.MaxProperties {
		f.add(&kind.MaxProperties{Got: len(obj), Want: *s.MaxProperties})
	}
	if missing := f.missing(obj, s.Required); missing != nil {
		f.add(&kind.Required{Missing: missing})
	}
	if f.canStop() {
		return
	}
	parts := f.schema.parts[s]
	for _, name := range parts.dependencies {
		f.meter.take(2 * nameCost)
		if _, ok := obj[name]; !ok {
			continue
		}
		switch dep := s.Dependencies[name].(type) {
		case []string:
			if missing := f.missing(obj, dep); missing != nil {
				f.add(&kind.Dependency{Prop: name, Missing: missing})
			}
		case *jsonschema.Schema:
			f.addErr(f.same(dep, false))
		}
	}
	if len(s.Properties) > 0 || len(s.PatternProperties) > 0 || s.AdditionalProperties != nil {
		f.properties(obj)
	}
	if s.PropertyNames != nil {
		f.propertyNames(obj)
	}
	for _, name := range parts.dependentSchemas {
		f.meter.take(2 * nameCost)
		if _, ok := obj[name]; ok {
			f.addErr(f.same(s.DependentSchemas[name], false))
		}
	}
	for _, name := range parts.dependentRequired {
		f.meter.take(2 * nameCost)
		if _, ok := obj[name]; !ok {
			continue
		}
		if missing := f.missing(obj, s.DependentRequired[name]); missing != nil {
			f.add(&kind.DependentRequired{Prop: name, Missing: missing})
		}
	}
}

// missing returns the names missing from an object.
func (f *frame) missing(obj map[string]any, names []string) []string {
	var missing []string
	for _, name := range names {
		f.meter.take(nameCost)
		if _, ok := obj[name]; ok || f.lenient && f.hasDefault(f.s.Properties[name]) {
			continue
		}
		if f.quiet {
			return []string{""}
		}
		missing = append(missing, name)
	}
	return missing
}

// properties applies "properties", "patternProperties" and "additionalProperties". Even a
// quiet frame checks all of them: their order is random, and the cost must not be.
func (f *frame) properties(obj map[string]any) {
	s := f.s
	patterns := f.schema.parts[s].patterns
	var additional []string
	for name, v := range f.members(obj) {
		f.meter.take(nameCost)
		if !f.quiet && f.canStop() {
			return
		}
		evaluated := false
		if sub, ok := s.Properties[name]; ok {
			evaluated = true
			f.addErr(f.property(sub, name, v))
		}
		for _, p := range patterns {
			if p.match(f.meter, name) {
				evaluated = true
				f.addErr(f.property(p.schema, name, v))
			}
		}
		if !evaluated && s.AdditionalProperties != nil {
			evaluated = true
			switch rest := s.AdditionalProperties.(type) {
			case bool:
				switch {
				case !rest && f.quiet:
					f.failed = true
				case !rest:
					additional = append(additional, name)
				}
			case *jsonschema.Schema:
				f.addErr(f.property(rest, name, v))
			}
		}
		if evaluated {
			delete(f.open.props, name)
		}
	}
	if len(additional) > 0 {
		f.add(&kind.AdditionalProperties{Properties: additional})
	}
}

func (f *frame) propertyNames(obj map[string]any) {
	for name := range f.members(obj) {
		f.meter.take(nameCost)
		if !f.quiet && f.canStop() {
			return
		}
		if f.start(f.s.PropertyNames, name, true) == nil {
			continue
		}
		if f.quiet {
			f.failed = true
			continue
		}
		f.add(&nameKind{name, f.root(f.s.PropertyNames, name)})
	}
}

func (f *frame) array(items []any) {
	s := f.s
	if s.MinItems != nil && len(items) < *s.MinItems {
		f.add(&kind.MinItems{Got: len(items), Want: *s.MinItems})
	}
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		f.add(&kind.MaxItems{Got: len(items), Want: *s.MaxItems})
	}
	if s.UniqueItems && len(items) > 1 {
		if i, j, found := f.meter.duplicates(items); found {
			f.add(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	tuple, rest := itemSchemas(s)
	n := min(len(tuple), len(items))
	f.elements(items[:n], 0, func(i int) *jsonschema.Schema { return tuple[i] })
	switch {
	case rest != nil:
		f.elements(items[n:], n, func(int) *jsonschema.Schema { return rest })
	case s.AdditionalItems == false && n < len(items):
		f.add(&kind.AdditionalItems{Count: len(items) - n})
	}
	if s.Contains != nil {
		f.contains(items)
	}
}

// itemSchemas returns the schemas of the first items of an array, and the schema of all other
// items, nil without a schema.
func itemSchemas(s *jsonschema.Schema) (tuple []*jsonschema.Schema, rest *jsonschema.Schema) {
	switch items := s.Items.(type) { // drafts before 2020-12
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		return items, rest
	}
	return s.PrefixItems, s.Items2020
}

func (f *frame) elements(items []any, from int, schema func(i int) *jsonschema.Schema) {
	for i, item := range items {
		if f.canStop() {
			return
		}
		f.addErr(f.element(schema(i), from+i, item))
	}
}

func (f *frame) contains(items []any) {
	s := f.s
	var attempts []*jsonschema.ValidationError
	var matched []int
	made := f.made
	for i, item := range items {
		err := f.element(s.Contains, i, item)
		switch {
		case err == nil:
			matched = append(matched, i)
			if s.DraftVersion >= 2020 {
				delete(f.open.items, i)
			}
		case !f.quiet && f.made < maxErrors:
			attempts = append(attempts, err)
		}
	}
	switch {
	case s.MinContains != nil && len(matched) < *s.MinContains:
		f.addAll(attempts, &kind.MinContains{Got: matched, Want: *s.MinContains})
	case s.MinContains == nil && len(matched) == 0:
		f.addAll(attempts, &kind.Contains{})
	default:
		f.made = made // drops the errors of the attempts
	}
	if s.MaxContains != nil && len(matched) > *s.MaxContains {
		f.add(&kind.MaxContains{Got: matched, Want: *s.MaxContains})
	}
}

// combine applies "not", "allOf", "anyOf", "oneOf" and "if".
func (f *frame) combine() {
	s := f.s
	if s.Not != nil && f.same(s.Not, true) == nil {
		f.add(&kind.Not{})
	}
	for _, sub := range s.AllOf {
		err := f.same(sub, false)
		f.addErr(err)
		if err != nil && (f.quiet || f.made >= maxErrors) {
			break
		}
	}
	if len(s.AnyOf) > 0 {
		f.anyOf()
	}
	if len(s.OneOf) > 0 {
		f.oneOf()
	}
	if s.If == nil {
		return
	}
	if f.same(s.If, true) == nil {
		if s.Then != nil {
			f.addErr(f.same(s.Then, false))
		}
	} else if s.Else != nil {
		f.addErr(f.same(s.Else, false))
	}
}

func (f *frame) anyOf() {
	var attempts []*jsonschema.ValidationError
	made, matched := f.made, false
	for _, sub := range f.s.AnyOf {
		if err := f.same(sub, false); err != nil {
			attempts = append(attempts, err)
			continue
		}
		matched = true
		if f.open.empty() { // otherwise every branch has to mark the parts it evaluates
			break
		}
	}
	if matched {
		f.made = made // drops the errors of the attempts
		return
	}
	f.addAll(attempts, &kind.AnyOf{})
}

func (f *frame) oneOf() {
	var attempts []*jsonschema.ValidationError
	made, matched := f.made, -1
	for i, sub := range f.s.OneOf {
		err := f.same(sub, matched >= 0)
		switch {
		case err != nil && matched < 0:
			attempts = append(attempts, err)
		case err != nil:
		case matched < 0:
			matched, f.made = i, made
		default:
			f.add(&kind.OneOf{Subschemas: []int{matched, i}})
			return
		}
	}
	if matched < 0 {
		f.addAll(attempts, &kind.OneOf{})
	}
}
