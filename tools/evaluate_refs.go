package tools

import (
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
