// Package json is Python's module json.
package json

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// maxDepth is how deep JSON may be nested, both ways.
const maxDepth = 1000

// Module returns the module json.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"loads": loads, "load": load, "dumps": dumps, "dump": dump})
	members["JSONDecodeError"] = stdlib.ErrorClass(decodeErrorClass, stdlib.ValueError)
	return &stdlib.Module{Name: "json", Members: members}
}

// hooks are functions of the script that make values; nil for missing ones.
type hooks struct {
	object, pairs, float, integer, constant starlark.Value
}

func loads(c *stdlib.Call) (starlark.Value, error) {
	var text starlark.Value
	h, err := unpackHooks(c, "s", &text)
	if err != nil {
		return nil, err
	}
	return decode(c, text, h)
}

// load reads the JSON of a file-like value, for example an io.StringIO.
func load(c *stdlib.Call) (starlark.Value, error) {
	var file starlark.Value
	h, err := unpackHooks(c, "fp", &file)
	if err != nil {
		return nil, err
	}
	text, err := c.CallMethod(file, "read")
	if err != nil {
		return nil, err
	}
	return decode(c, text, h)
}

func unpackHooks(c *stdlib.Call, name string, subject *starlark.Value) (h hooks, err error) {
	var class starlark.Value
	err = c.Unpack(name, subject, "*", nil, "cls??", &class, "object_hook??", &h.object, "parse_float??", &h.float,
		"parse_int??", &h.integer, "parse_constant??", &h.constant, "object_pairs_hook??", &h.pairs)
	if err == nil && class != nil {
		err = c.Errorf(stdlib.TypeError, "cls is not supported: use object_hook")
	}
	return h, err
}

func decode(c *stdlib.Call, v starlark.Value, h hooks) (starlark.Value, error) {
	var text string
	switch v := v.(type) {
	case starlark.String:
		text = string(v)
	case starlark.Bytes:
		text = string(v)
	case stdlib.DictLike, *starlark.List:
		return v, nil // an answer of a tool, which is decoded already
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "the JSON object must be str, bytes or bytearray, not %s", stdlib.TypeName(v))
	}
	d := decoder{call: c, text: text, hooks: h}
	return d.document()
}

func dumps(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	e, err := unpackLayout(c, "obj", &v)
	if err != nil {
		return nil, err
	}
	if err := e.value(v); err != nil {
		return nil, err
	}
	return starlark.String(e.out), nil
}

// dump writes to a file-like value.
func dump(c *stdlib.Call) (starlark.Value, error) {
	var v, file starlark.Value
	e, err := unpackLayout(c, "obj", &v, "fp", &file)
	if err != nil {
		return nil, err
	}
	if err := e.value(v); err != nil {
		return nil, err
	}
	_, err = c.CallMethod(file, "write", starlark.String(e.out))
	return starlark.None, err
}

func unpackLayout(c *stdlib.Call, subject ...any) (*encoder, error) {
	e := &encoder{call: c, ascii: true, nan: true}
	var indent, separators, class starlark.Value
	circular := true
	pairs := append(subject, "*", nil, "skipkeys?", &e.skip, "ensure_ascii?", &e.ascii, "check_circular?", &circular,
		"allow_nan?", &e.nan, "cls??", &class, "indent??", &indent, "separators??", &separators, "default??", &e.fallback, "sort_keys?", &e.sort)
	if err := c.Unpack(pairs...); err != nil {
		return nil, err
	}
	if class != nil {
		return nil, c.Errorf(stdlib.TypeError, "cls is not supported: use default")
	}
	return e, e.layout(c, indent, separators)
}

// An encoder writes JSON as Python's json.dumps does.
type encoder struct {
	call             *stdlib.Call
	out              []byte
	skip, ascii, nan bool
	sort             bool
	fallback         starlark.Value // default=
	indented         bool
	unit             string // of indentation
	item, key        string // separators
	open             []starlark.Value
	level            int // of indentation
	may              int // how long out may get before the run is asked again
}

// layout sets indentation and separators.
func (e *encoder) layout(c *stdlib.Call, indent, separators starlark.Value) error {
	e.item, e.key = ", ", ": "
	if indent != nil {
		e.indented, e.item = true, ","
		if text, ok := starlark.AsString(indent); ok {
			e.unit = text
		} else {
			n, err := stdlib.Int(indent)
			if err != nil {
				return err
			}
			const most = 1000
			e.unit = strings.Repeat(" ", min(max(n, 0), most))
		}
	}
	if separators == nil {
		return nil
	}
	pair, err := c.Elements(separators)
	if err != nil {
		return err
	}
	if len(pair) != 2 {
		return stdlib.Errorf(stdlib.ValueError, "separators must be two texts, (item_separator, key_separator)")
	}
	var ok, ok2 bool
	e.item, ok = starlark.AsString(pair[0])
	e.key, ok2 = starlark.AsString(pair[1])
	if !ok || !ok2 {
		return stdlib.Errorf(stdlib.TypeError, "separators must be two texts, (item_separator, key_separator)")
	}
	return nil
}

func (e *encoder) value(v starlark.Value) error {
	switch v := v.(type) {
	case starlark.String:
		e.str(string(v))
	case starlark.Bool:
		e.out = fmt.Appendf(e.out, "%t", bool(v))
	case starlark.NoneType:
		e.out = append(e.out, "null"...)
	case starlark.Int:
		e.out = append(e.out, v.String()...)
	case starlark.Float:
		return e.float(float64(v))
	case *starlark.List:
		return e.array(v)
	case starlark.Tuple:
		return e.array(v)
	case stdlib.TupleLike:
		return e.array(v.AsTuple())
	case stdlib.DictLike:
		return e.object(v, v.Underlying().Items())
	case starlark.IterableMapping:
		return e.object(v, v.Items())
	default:
		return e.other(v)
	}
	return nil
}

func (e *encoder) other(v starlark.Value) error {
	if e.fallback == nil {
		return stdlib.Errorf(stdlib.TypeError, "Object of type %s is not JSON serializable", stdlib.TypeName(v))
	}
	if err := e.enter(v); err != nil {
		return err
	}
	other, err := e.call.Call(e.fallback, v)
	if err != nil {
		return err
	}
	if err := e.value(other); err != nil {
		return err
	}
	e.leave()
	return nil
}

func (e *encoder) float(f float64) error {
	switch {
	case !math.IsNaN(f) && !math.IsInf(f, 0):
		e.out = append(e.out, stdlib.FloatText(f)...)
	case !e.nan:
		return stdlib.Errorf(stdlib.ValueError, "Out of range float values are not JSON compliant: %s", stdlib.FloatText(f))
	case math.IsNaN(f):
		e.out = append(e.out, "NaN"...)
	case f > 0:
		e.out = append(e.out, "Infinity"...)
	default:
		e.out = append(e.out, "-Infinity"...)
	}
	return nil
}

// enter opens a container.
func (e *encoder) enter(v starlark.Value) error {
	if len(e.out) > e.may {
		e.may = 2*len(e.out) + 4096
		if err := e.call.Env().Charge(e.may); err != nil {
			return err
		}
	}
	if len(e.open) < maxDepth {
		e.open = append(e.open, v)
		return nil
	}
	// Every cycle gets here.
	seen := map[any]bool{}
	for _, o := range e.open {
		id := identity(o)
		if id != nil && seen[id] {
			return stdlib.Errorf(stdlib.ValueError, "Circular reference detected")
		}
		seen[id] = true
	}
	return stdlib.Errorf(stdlib.RecursionError, "the value is nested deeper than %d levels", maxDepth)
}

// identity returns a key equal for all references to a container, nil for values that cannot
// contain themselves.
func identity(v starlark.Value) any {
	switch v := v.(type) {
	case *starlark.List:
		return v
	case stdlib.DictLike:
		return v.Underlying()
	}
	if reflect.TypeOf(v).Comparable() {
		return v
	}
	return nil
}

func (e *encoder) leave() { e.open = e.open[:len(e.open)-1] }

// line begins a line at the present depth.
func (e *encoder) line() {
	if e.indented {
		e.out = append(e.out, '\n')
		for range e.level {
			e.out = append(e.out, e.unit...)
		}
	}
}

func (e *encoder) array(list starlark.Indexable) error {
	n := list.Len()
	if n == 0 {
		e.out = append(e.out, "[]"...)
		return nil
	}
	if err := e.enter(list); err != nil {
		return err
	}
	e.out = append(e.out, '[')
	e.level++
	for i := 0; i < list.Len(); i++ { // default= can change the list
		if i > 0 {
			e.out = append(e.out, e.item...)
		}
		e.line()
		if err := e.value(list.Index(i)); err != nil {
			return err
		}
	}
	e.leave()
	e.level--
	e.line()
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) object(o starlark.Value, items []starlark.Tuple) error {
	if len(items) == 0 {
		e.out = append(e.out, "{}"...)
		return nil
	}
	if err := e.enter(o); err != nil {
		return err
	}
	if e.sort {
		if err := sortItems(items); err != nil {
			return err
		}
	}
	e.out = append(e.out, '{')
	e.level++
	e.line()
	first := true
	for _, kv := range items {
		name, ok, err := e.name(kv[0])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if !first {
			e.out = append(e.out, e.item...)
			e.line()
		}
		first = false
		e.str(name)
		e.out = append(e.out, e.key...)
		if err := e.value(kv[1]); err != nil {
			return err
		}
	}
	e.leave()
	e.level--
	e.line()
	e.out = append(e.out, '}')
	return nil
}

func sortItems(items []starlark.Tuple) (err error) {
	slices.SortStableFunc(items, func(x, y starlark.Tuple) int {
		less, failed := stdlib.Less(x[0], y[0])
		if failed != nil && err == nil {
			err = failed
		}
		if less {
			return -1
		}
		if more, _ := stdlib.Less(y[0], x[0]); more {
			return 1
		}
		return 0
	})
	return err
}

// name returns the text of a key; ok is false for a key to be skipped.
func (e *encoder) name(k starlark.Value) (text string, ok bool, err error) {
	switch k := k.(type) {
	case starlark.String:
		return string(k), true, nil
	case starlark.Bool:
		return fmt.Sprint(bool(k)), true, nil
	case starlark.NoneType:
		return "null", true, nil
	case starlark.Int:
		return k.String(), true, nil
	case starlark.Float:
		plain := encoder{nan: e.nan}
		err := plain.float(float64(k))
		return string(plain.out), true, err
	}
	if e.skip {
		return "", false, nil
	}
	return "", false, stdlib.Errorf(stdlib.TypeError, "keys must be str, int, float, bool or None, not %s", stdlib.TypeName(k))
}

// str writes a string.
func (e *encoder) str(s string) {
	e.out = append(e.out, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && (c < utf8.RuneSelf && c != 0x7f || !e.ascii) {
			i++
			continue
		}
		e.out = append(e.out, s[from:i]...)
		i += e.escape(s[i:])
		from = i
	}
	e.out = append(append(e.out, s[from:]...), '"')
}

// escape writes the first character of s and returns the character's length.
func (e *encoder) escape(s string) int {
	if at := strings.IndexByte("\"\\\n\r\t\b\f", s[0]); at >= 0 {
		e.out = append(e.out, '\\', `"\nrtbf`[at])
		return 1
	}
	if s[0] == 0x7f && !e.ascii {
		e.out = append(e.out, s[0])
		return 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		e.out = fmt.Appendf(e.out, `\u%04x\u%04x`, high, low)
	} else {
		e.out = fmt.Appendf(e.out, `\u%04x`, r)
	}
	return n
}
