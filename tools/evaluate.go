package tools

import (
	"encoding/json"
	"iter"
	"maps"
	"math/bits"
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
