package collections

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// TupleType is a class made by namedtuple.
type TupleType struct {
	name     string
	fields   []string
	defaults []starlark.Value // of the last fields
	// Extra returns more attributes of tuples of the class, for other modules, or nil.
	Extra func(values starlark.Tuple, name string) (starlark.Value, error)
	// Member is an attribute of the class, or of a tuple of the class: the methods of a class
	// derived from NamedTuple. Member is nil for none.
	Member func(x starlark.Value, name string) (starlark.Value, error)
}

var (
	_ starlark.Callable = (*TupleType)(nil)
	_ starlark.HasAttrs = (*TupleType)(nil)
)

// NewTupleType returns a class of tuples, for other modules. The defaults belong to the last
// fields.
func NewTupleType(name string, fields []string, defaults ...starlark.Value) *TupleType {
	return &TupleType{name: name, fields: fields, defaults: defaults}
}

// Make returns a tuple with a value for each field.
func (t *TupleType) Make(values ...starlark.Value) starlark.Value {
	return &namedTupleValue{t, values}
}

// Instance reports whether a value is of the class.
func (t *TupleType) Instance(v starlark.Value) bool {
	n, ok := v.(*namedTupleValue)
	return ok && n.of == t
}

func (t *TupleType) String() string        { return fmt.Sprintf("<class '__main__.%s'>", t.name) }
func (t *TupleType) Type() string          { return "type" }
func (t *TupleType) Freeze()               {}
func (t *TupleType) Truth() starlark.Bool  { return true }
func (t *TupleType) Hash() (uint32, error) { return starlark.String(t.name).Hash() }
func (t *TupleType) Name() string          { return t.name }
func (t *TupleType) AttrNames() []string {
	return []string{"__name__", "_field_defaults", "_fields", "_make"}
}

// Attr is _fields, _make, _field_defaults or __name__.
func (t *TupleType) Attr(name string) (starlark.Value, error) {
	switch name {
	case "__name__":
		return starlark.String(t.name), nil
	case "_fields":
		return t.fieldNames(), nil
	case "_field_defaults":
		d := starlark.NewDict(len(t.defaults))
		for i, v := range t.defaults {
			if err := d.SetKey(starlark.String(t.fields[len(t.fields)-len(t.defaults)+i]), v); err != nil {
				return nil, err
			}
		}
		return d, nil
	case "_make":
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			var iterable starlark.Value
			if err := c.Unpack("iterable", &iterable); err != nil {
				return nil, err
			}
			values, err := c.Elements(iterable)
			if err != nil {
				return nil, err
			}
			if len(values) != len(t.fields) {
				return nil, stdlib.Errorf(stdlib.TypeError, "Expected %d arguments, got %d", len(t.fields), len(values))
			}
			return t.Make(values...), nil
		}), nil
	}
	if t.Member != nil {
		return t.Member(t, name)
	}
	return nil, nil
}

func (t *TupleType) fieldNames() starlark.Tuple {
	out := make(starlark.Tuple, len(t.fields))
	for i, f := range t.fields {
		out[i] = starlark.String(f)
	}
	return out
}

// CallInternal makes a tuple.
func (t *TupleType) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	fail := func(format string, args ...any) error {
		return stdlib.Errorf(stdlib.TypeError, "%s.__new__() %s", t.name, fmt.Sprintf(format, args...))
	}
	if len(args) > len(t.fields) {
		return nil, fail("takes %d positional arguments but %d were given", len(t.fields)+1, len(args)+1)
	}
	values := make([]starlark.Value, len(t.fields))
	copy(values, args)
	for _, kv := range kwargs {
		name := string(kv[0].(starlark.String))
		i := slices.Index(t.fields, name)
		if i < 0 {
			return nil, fail("got an unexpected keyword argument '%s'", name)
		}
		if values[i] != nil {
			return nil, fail("got multiple values for argument '%s'", name)
		}
		values[i] = kv[1]
	}
	required := len(t.fields) - len(t.defaults)
	var missing []string
	for i, v := range values {
		if v == nil && i >= required {
			values[i] = t.defaults[i-required]
		} else if v == nil {
			missing = append(missing, "'"+t.fields[i]+"'")
		}
	}
	if len(missing) > 0 {
		return nil, fail("missing %d required positional arguments: %s", len(missing), strings.Join(missing, ", "))
	}
	return t.Make(values...), nil
}

func namedTuple(c *stdlib.Call) (starlark.Value, error) {
	t := &TupleType{}
	var fields, defaults, module starlark.Value
	rename := false
	err := c.Unpack("typename", &t.name, "field_names", &fields, "*", nil, "rename?", &rename, "defaults??", &defaults, "module??", &module)
	if err != nil {
		return nil, err
	}
	if text, ok := starlark.AsString(fields); ok {
		t.fields = strings.Fields(strings.ReplaceAll(text, ",", " "))
	} else {
		values, err := c.Elements(fields)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			t.fields = append(t.fields, c.Env().Str(v))
		}
	}
	seen := map[string]bool{}
	for i, name := range append([]string{t.name}, t.fields...) {
		problem := badField(name, i == 0)
		if problem == "" && seen[name] && i > 0 {
			problem = "Encountered duplicate field name"
		}
		switch {
		case problem == "":
		case rename && i > 0:
			t.fields[i-1] = fmt.Sprintf("_%d", i-1)
		default:
			return nil, stdlib.Errorf(stdlib.ValueError, "%s: %s", problem, c.Env().Repr(starlark.String(name)))
		}
		if i > 0 {
			seen[name] = true
		}
	}
	if defaults != nil {
		if t.defaults, err = c.Elements(defaults); err != nil {
			return nil, err
		}
	}
	if len(t.defaults) > len(t.fields) {
		return nil, stdlib.Errorf(stdlib.TypeError, "Got more default values than field names")
	}
	return t, nil
}

// pythonWords cannot be names of fields.
const pythonWords = " False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield "

// badField returns the fault of a name; "" for none.
func badField(name string, ofType bool) string {
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			name = ""
			break
		}
	}
	switch {
	case name == "":
		return "Type names and field names must be valid identifiers"
	case strings.Contains(pythonWords, " "+name+" "):
		return "Type names and field names cannot be a keyword"
	case !ofType && name[0] == '_':
		return "Field names cannot start with an underscore"
	}
	return ""
}

// namedTupleValue is a tuple with names.
type namedTupleValue struct {
	of     *TupleType
	values starlark.Tuple
}

var (
	_ stdlib.TupleLike    = (*namedTupleValue)(nil)
	_ starlark.HasAttrs   = (*namedTupleValue)(nil)
	_ starlark.Sequence   = (*namedTupleValue)(nil)
	_ starlark.Sliceable  = (*namedTupleValue)(nil)
	_ starlark.Comparable = (*namedTupleValue)(nil)
	_ starlark.HasBinary  = (*namedTupleValue)(nil)
)

func (n *namedTupleValue) String() string { return n.Repr(stdlib.PlainRepr) }

// Repr is Point(x=1, y=2).
func (n *namedTupleValue) Repr(repr func(starlark.Value) string) string {
	parts := make([]string, len(n.values))
	for i, v := range n.values {
		parts[i] = n.of.fields[i] + "=" + repr(v)
	}
	return n.of.name + "(" + strings.Join(parts, ", ") + ")"
}

func (n *namedTupleValue) Type() string               { return n.of.name }
func (n *namedTupleValue) Freeze()                    { n.values.Freeze() }
func (n *namedTupleValue) Truth() starlark.Bool       { return len(n.values) > 0 }
func (n *namedTupleValue) Hash() (uint32, error)      { return n.values.Hash() }
func (n *namedTupleValue) AsTuple() starlark.Tuple    { return n.values }
func (n *namedTupleValue) Len() int                   { return len(n.values) }
func (n *namedTupleValue) Index(i int) starlark.Value { return n.values[i] }
func (n *namedTupleValue) Iterate() starlark.Iterator { return n.values.Iterate() }

// Slice is x[a:b], a plain tuple.
func (n *namedTupleValue) Slice(start, end, step int) starlark.Value {
	return n.values.Slice(start, end, step)
}

// CompareSameType compares with another tuple.
func (n *namedTupleValue) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other, ok := y.(stdlib.TupleLike)
	if !ok {
		return op == syntax.NEQ, nil
	}
	return starlark.CompareDepth(op, n.values, other.AsTuple(), depth)
}

// Has is v in x.
func (n *namedTupleValue) Has(v starlark.Value) (bool, error) { return n.values.Has(v) }

// Binary is x + y and x * n, with plain tuples as results.
func (n *namedTupleValue) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op != syntax.PLUS && op != syntax.STAR {
		return nil, nil
	}
	if other, ok := y.(stdlib.TupleLike); ok {
		y = other.AsTuple()
	}
	if side == starlark.Left {
		return starlark.Binary(op, n.values, y)
	}
	return starlark.Binary(op, y, n.values)
}

func (n *namedTupleValue) AttrNames() []string {
	return append(slices.Clone(n.of.fields), "_asdict", "_fields", "_replace", "count", "index")
}

// Attr is a field or a method.
func (n *namedTupleValue) Attr(name string) (starlark.Value, error) {
	if i := slices.Index(n.of.fields, name); i >= 0 {
		return n.values[i], nil
	}
	if m := stdlib.Method(n, name, tupleMethods); m != nil {
		return m, nil
	}
	if n.of.Extra != nil {
		if v, err := n.of.Extra(n.values, name); v != nil || err != nil {
			return v, err
		}
	}
	if n.of.Member != nil {
		if v, err := n.of.Member(n, name); v != nil || err != nil {
			return v, err
		}
	}
	return n.of.Attr(name)
}

var tupleMethods = map[string]stdlib.Func{
	"_asdict": func(c *stdlib.Call) (starlark.Value, error) {
		n := c.Receiver.(*namedTupleValue)
		d := c.Env().NewDict(len(n.values))
		for i, v := range n.values {
			if err := d.SetKey(starlark.String(n.of.fields[i]), v); err != nil {
				return nil, err
			}
		}
		return d, c.Unpack()
	},
	"_replace": func(c *stdlib.Call) (starlark.Value, error) {
		n := c.Receiver.(*namedTupleValue)
		if len(c.Args) > 0 {
			return nil, c.Errorf(stdlib.TypeError, "takes only keyword arguments")
		}
		values := slices.Clone(n.values)
		for _, kv := range c.Kwargs {
			i := slices.Index(n.of.fields, string(kv[0].(starlark.String)))
			if i < 0 {
				return nil, stdlib.Errorf(stdlib.ValueError, "Got unexpected field names: [%s]", c.Env().Repr(kv[0]))
			}
			values[i] = kv[1]
		}
		return n.of.Make(values...), nil
	},
	"count": func(c *stdlib.Call) (starlark.Value, error) {
		var x starlark.Value
		if err := c.Unpack("value", &x, "/", nil); err != nil {
			return nil, err
		}
		n := 0
		for _, v := range c.Receiver.(*namedTupleValue).values {
			if same, err := stdlib.Equal(v, x); err != nil {
				return nil, err
			} else if same {
				n++
			}
		}
		return starlark.MakeInt(n), nil
	},
	"index": func(c *stdlib.Call) (starlark.Value, error) {
		var x starlark.Value
		if err := c.Unpack("value", &x, "/", nil); err != nil {
			return nil, err
		}
		for i, v := range c.Receiver.(*namedTupleValue).values {
			if same, err := stdlib.Equal(v, x); same || err != nil {
				return starlark.MakeInt(i), err
			}
		}
		return nil, stdlib.Errorf(stdlib.ValueError, "tuple.index(x): x not in tuple")
	},
}

// CopyWith is for copy.deepcopy.
func (n *namedTupleValue) CopyWith(element func(starlark.Value) (starlark.Value, error)) (starlark.Value, error) {
	values := slices.Clone(n.values)
	for i, v := range values {
		x, err := element(v)
		if err != nil {
			return nil, err
		}
		values[i] = x
	}
	return n.of.Make(values...), nil
}
