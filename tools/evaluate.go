package tools

import (
	"encoding/json"
	"iter"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The library compiles schemas, but this package evaluates them, because the library's validation
// cannot be stopped. This evaluation counts each step and stops when the meter says so. It gives
// the same verdicts and errors as the library, see TestSameAsLibrary.

const (
	// maxErrors is the number of errors after which evaluation stops at the first error of each
	// schema. The limit bounds memory.
	maxErrors = 4000
	// maxFrames is the number of nested schemas under evaluation. The limit bounds the stack.
	maxFrames = maxChain * (MaxValueDepth + 8)
)

// evaluation is the validation of a value.
type evaluation struct {
	schema *Schema
	meter  *meter
	// lenient allows a required property to be absent with a default.
	lenient bool
	made    int // errors so far; deep ones count more
}

// invalid is the error of all quiet frames.
var invalid = &jsonschema.ValidationError{}

// frame is the application of a schema to a value.
type frame struct {
	*evaluation
	s      *jsonschema.Schema
	v      any
	parent *frame
	depth  int // nesting level of frames
	// The place of v in the parent's value: member name or item index; neither for the same value.
	member bool
	item   bool
	name   string
	index  int
	quiet  bool // only whether v is valid matters
	failed bool
	errs   []*jsonschema.ValidationError
	open   unevaluated
}

// check evaluates the whole schema. Since most values are valid, errors are created only in a
// second pass.
func (e *evaluation) check(v any) *jsonschema.ValidationError {
	return e.root(e.schema.root, v)
}

func (e *evaluation) root(s *jsonschema.Schema, v any) *jsonschema.ValidationError {
	if e.start(s, v, true) == nil {
		return nil
	}
	err := e.start(s, v, false)
	if err == nil { // cannot happen: both passes agree
		err = invalid
	}
	return &jsonschema.ValidationError{SchemaURL: s.Location, ErrorKind: &kind.Schema{Location: s.Location}, Causes: causes(err)}
}

func (e *evaluation) start(s *jsonschema.Schema, v any, quiet bool) *jsonschema.ValidationError {
	f := frame{evaluation: e, s: s, v: v, quiet: quiet}
	f.open = f.unevaluated(false)
	return f.evaluate()
}

// causes returns the parts of an error without a message of its own.
func causes(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := err.ErrorKind.(*kind.Group); ok {
		return err.Causes
	}
	return []*jsonschema.ValidationError{err}
}

// same applies another schema to the same value. If the value is valid, the parts evaluated by that
// schema count as evaluated here.
func (f *frame) same(s *jsonschema.Schema, quiet bool) *jsonschema.ValidationError {
	sub := frame{evaluation: f.evaluation, s: s, v: f.v, parent: f, depth: f.depth + 1, quiet: f.quiet || quiet}
	sub.open = sub.unevaluated(!f.open.empty())
	err := sub.evaluate()
	if err == nil {
		f.open.keep(f.meter, sub.open)
	}
	return err
}

func (f *frame) child(s *jsonschema.Schema, v any) *frame {
	sub := &frame{evaluation: f.evaluation, s: s, v: v, parent: f, depth: f.depth + 1, quiet: f.quiet}
	sub.open = sub.unevaluated(false)
	return sub
}

func (f *frame) property(s *jsonschema.Schema, name string, v any) *jsonschema.ValidationError {
	sub := f.child(s, v)
	sub.member, sub.name = true, name
	return sub.evaluate()
}

func (f *frame) element(s *jsonschema.Schema, i int, v any) *jsonschema.ValidationError {
	sub := f.child(s, v)
	sub.item, sub.index = true, i
	return sub.evaluate()
}

func (f *frame) evaluate() *jsonschema.ValidationError {
	s := f.s
	f.meter.take(schemaCost)
	if _, ok := f.v.(unknown); ok {
		return nil
	}
	switch {
	case s.Bool != nil && *s.Bool:
		return nil
	case s.Bool != nil:
		return f.error(&kind.FalseSchema{})
	case f.depth > maxFrames || f.cycle():
		return f.error(&costKind{})
	}
	if k := f.mismatch(); k != nil {
		return f.error(k)
	}
	if s.Ref != nil {
		err := f.same(s.Ref, false)
		if s.DraftVersion < 2019 {
			return err
		}
		f.addErr(err)
	}
	switch v := f.v.(type) {
	case map[string]any:
		f.object(v)
	case []any:
		f.array(v)
	case string:
		f.text(v)
	case json.Number:
		f.number(v)
	}
	if !f.canStop() {
		f.applyDynamic()
		f.combine()
		f.applyUnevaluated()
	}
	return f.result()
}

func (f *frame) result() *jsonschema.ValidationError {
	switch {
	case f.failed:
		return invalid
	case len(f.errs) == 0:
		return nil
	case len(f.errs) == 1:
		return f.errs[0]
	}
	return &jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: f.errs}
}

// cycle reports whether the schema is already being applied to the value. References that
// lead back to themselves are refused at compile time, but dynamic references can only be
// checked here.
func (f *frame) cycle() bool {
	for p := f; p.parent != nil && !p.member && !p.item; p = p.parent {
		f.meter.take(4)
		if p.parent.s == f.s {
			return true
		}
	}
	return false
}

// canStop reports whether evaluation can stop: the value is known to be invalid, and either no
// details are needed or errors are numerous enough.
func (f *frame) canStop() bool {
	return f.failed || f.made >= maxErrors && len(f.errs) > 0
}

func (f *frame) error(k jsonschema.ErrorKind) *jsonschema.ValidationError {
	if f.quiet {
		return invalid
	}
	f.meter.take(schemaCost + int64(f.depth))
	at := f.location()
	f.made += 1 + len(at)/16
	return &jsonschema.ValidationError{SchemaURL: f.s.Location, InstanceLocation: at, ErrorKind: k}
}

func (f *frame) location() []string {
	n := 0
	for p := f; p != nil; p = p.parent {
		if p.member || p.item {
			n++
		}
	}
	at := make([]string, n)
	for p := f; p != nil; p = p.parent {
		switch {
		case p.member:
			n--
			at[n] = p.name
		case p.item:
			n--
			at[n] = strconv.Itoa(p.index)
		}
	}
	return at
}

func (f *frame) addErr(err *jsonschema.ValidationError) {
	switch {
	case err == nil:
	case f.quiet:
		f.failed = true
	default:
		f.errs = append(f.errs, err)
	}
}

func (f *frame) add(k jsonschema.ErrorKind) { f.addErr(f.error(k)) }

// addAll adds an error with its causes; with too many errors, only the first cause.
func (f *frame) addAll(causes []*jsonschema.ValidationError, k jsonschema.ErrorKind) {
	if !f.quiet && f.made >= maxErrors && len(causes) > 0 {
		f.addErr(causes[0])
		return
	}
	err := f.error(k)
	if !f.quiet {
		err.Causes = causes
	}
	f.addErr(err)
}

// members iterates over the members of an object, in order if the order affects which errors are
// reported.
func (f *frame) members(obj map[string]any) iter.Seq2[string, any] {
	if f.quiet {
		return maps.All(obj)
	}
	return func(yield func(string, any) bool) {
		for _, name := range f.meter.ordered(maps.Keys(obj), len(obj)) {
			if !yield(name, obj[name]) {
				return
			}
		}
	}
}

// ordered returns n names, sorted.
func (m *meter) ordered(names iter.Seq[string], n int) []string {
	m.take(int64(n) * int64(bits.Len(uint(n))) * nameCost)
	list := make([]string, 0, n)
	for name := range names {
		m.poll()
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int {
		m.poll() // the number of comparisons depends on the original order
		return strings.Compare(a, b)
	})
	return list
}

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

// applyDynamic applies "$recursiveRef" and "$dynamicRef". Their target can be replaced by
// the outermost schema resource under evaluation.
func (f *frame) applyDynamic() {
	if s := f.s.RecursiveRef; s != nil {
		if s.RecursiveAnchor {
			for p := f; p != nil; p = p.parent {
				f.meter.take(nameCost)
				if f.schema.parts[p.s].resource.RecursiveAnchor {
					s = p.s
				}
			}
		}
		f.addErr(f.same(s, false))
	}
	if ref := f.s.DynamicRef; ref != nil {
		s := ref.Ref
		if ref.Anchor != "" && s.DynamicAnchor == ref.Anchor {
			for p := f; p != nil; p = p.parent {
				f.meter.take(nameCost)
				if target := f.schema.parts[f.schema.parts[p.s].resource].anchors[ref.Anchor]; target != nil {
					s = target
				}
			}
		}
		f.addErr(f.same(s, false))
	}
}

// resourceOf returns the schema resource of a schema, and anchorsOf the targets of dynamic
// references in a resource. The library does not export either; TestSameAsLibrary detects a change
// in the library.
func resourceOf(s *jsonschema.Schema) *jsonschema.Schema {
	return (*jsonschema.Schema)(reflect.ValueOf(s).Elem().FieldByName("resource").UnsafePointer())
}

func anchorsOf(s *jsonschema.Schema) map[string]*jsonschema.Schema {
	anchors := map[string]*jsonschema.Schema{}
	for it := reflect.ValueOf(s).Elem().FieldByName("dynamicAnchors").MapRange(); it.Next(); {
		anchors[it.Key().String()] = (*jsonschema.Schema)(it.Value().UnsafePointer())
	}
	return anchors
}

// unevaluated are the members or items of a value to which no schema has been applied yet. They are
// tracked only where needed: for "unevaluatedProperties" and "unevaluatedItems" of a schema or of a
// schema that applies it.
type unevaluated struct {
	props map[string]struct{}
	items map[int]struct{}
}

// unevaluated returns the initial state of a frame.
func (f *frame) unevaluated(callerNeeds bool) (u unevaluated) {
	s := f.s
	switch v := f.v.(type) {
	case map[string]any:
		if s.AdditionalProperties != nil || !callerNeeds && s.UnevaluatedProperties == nil {
			return u
		}
		u.props = make(map[string]struct{}, len(v))
		for name := range v {
			f.meter.take(4 * nameCost)
			u.props[name] = struct{}{}
		}
	case []any:
		from, all := evaluatesItems(s)
		if all || !callerNeeds && s.UnevaluatedItems == nil || from >= len(v) {
			return u
		}
		u.items = make(map[int]struct{}, len(v)-from)
		for i := from; i < len(v); i++ {
			f.meter.take(4 * nameCost)
			u.items[i] = struct{}{}
		}
	}
	return u
}

// evaluatesItems returns the items of an array to which a schema always applies another schema: the
// first items, or all.
func evaluatesItems(s *jsonschema.Schema) (first int, all bool) {
	if s.DraftVersion >= 2020 {
		return len(s.PrefixItems), s.Items2020 != nil
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return 0, true
	case []*jsonschema.Schema:
		first = len(items)
	}
	return first, s.AdditionalItems != nil
}

func (u *unevaluated) empty() bool { return len(u.props) == 0 && len(u.items) == 0 }

// keep removes the parts evaluated by another schema.
func (u *unevaluated) keep(m *meter, other unevaluated) {
	m.take(int64(len(u.props)+len(u.items)) * nameCost)
	for name := range u.props {
		m.poll()
		if _, ok := other.props[name]; !ok {
			delete(u.props, name)
		}
	}
	for i := range u.items {
		m.poll()
		if _, ok := other.items[i]; !ok {
			delete(u.items, i)
		}
	}
}

func (f *frame) applyUnevaluated() {
	s := f.s
	if obj, ok := f.v.(map[string]any); ok && s.UnevaluatedProperties != nil {
		for name, v := range f.members(obj) {
			f.meter.take(nameCost)
			if !f.quiet && f.canStop() {
				return
			}
			if _, ok := f.open.props[name]; ok {
				f.addErr(f.property(s.UnevaluatedProperties, name, v))
			}
		}
		f.open.props = nil
	}
	if items, ok := f.v.([]any); ok && s.UnevaluatedItems != nil {
		for i, item := range items {
			f.meter.take(nameCost)
			if f.canStop() {
				return
			}
			if _, ok := f.open.items[i]; ok {
				f.addErr(f.element(s.UnevaluatedItems, i, item))
			}
		}
		f.open.items = nil
	}
}
