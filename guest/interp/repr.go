package interp

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// repr returns a value as written in a script. A container inside itself, or nested deeper than
// abi.MaxDepth, is replaced by "...".
func repr(v starlark.Value) string {
	var w reprWriter
	w.write(v)
	return w.out.String()
}

// text returns a value as shown by str and print: strings without quotes.
func text(v starlark.Value) string {
	switch v := v.(type) { // common types first: to ask for an interface takes long
	case starlark.String:
		return string(v)
	case starlark.Int:
		return v.String()
	case starlark.Float, starlark.Bool, starlark.NoneType, *starlark.List, starlark.Tuple, Object:
		return repr(v)
	case *errorValue:
		return v.text()
	case *instance, *iterable:
		return instanceOf(v).text()
	case stdlib.Texter:
		return v.Str()
	}
	return repr(v)
}

// joinText returns the texts of several values with separators.
func joinText(values []starlark.Value, sep string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(text(v))
	}
	return b.String()
}

// A reprWriter writes values. The library's own writer does not notice a cycle
// through an Object and has no limit of depth.
type reprWriter struct {
	out  strings.Builder
	path []starlark.Value // the lists and dicts being written
}

func (w *reprWriter) write(v starlark.Value) {
	switch v := v.(type) {
	case *starlark.List:
		w.container(v, "[", "]", func() {
			for i := range v.Len() {
				w.element(i, v.Index(i))
			}
		})
	case starlark.Tuple:
		w.container(v, "(", ")", func() {
			for i, e := range v {
				w.element(i, e)
			}
			if len(v) == 1 {
				w.out.WriteByte(',')
			}
		})
	case Object:
		w.container(v, "{", "}", func() {
			i := 0
			for k, e := range v.Entries() {
				w.element(i, k)
				w.out.WriteString(": ")
				w.write(e)
				i++
			}
		})
	case *starlark.Set:
		if v.Len() == 0 {
			w.out.WriteString("set()")
			return
		}
		w.container(v, "{", "}", func() {
			i := 0
			for e := range v.Elements() {
				w.element(i, e)
				i++
			}
		})
	case starlark.Float:
		w.out.WriteString(stdlib.FloatText(float64(v)))
	case starlark.String:
		w.out.WriteString(stdlib.Quote(string(v)))
	case starlark.Bytes:
		w.out.WriteString(stdlib.QuoteBytes(string(v)))
	case starlark.Int, starlark.Bool, starlark.NoneType:
		w.out.WriteString(v.String())
	case stdlib.Representer:
		w.representer(v)
	case *starlark.Builtin:
		if v.Receiver() == nil && classFunctions[v.Name()] {
			w.out.WriteString("<class '" + v.Name() + "'>")
			return
		}
		w.out.WriteString(v.String())
	case *errorValue:
		w.errorValue(v)
	default:
		text := v.String()
		if end, ok := strings.CutPrefix(text, "range("); ok && v.Type() == "range" && !strings.Contains(text, ",") {
			text = "range(0, " + end // which the library leaves out
		}
		w.out.WriteString(text)
	}
}

// classFunctions are functions that are classes in Python.
var classFunctions = func() map[string]bool {
	all := make(map[string]bool)
	for _, name := range strings.Fields(`bool bytes classmethod dict enumerate filter float frozenset int list map property
		range reversed set slice staticmethod str tuple type zip`) {
		all[name] = true
	}
	return all
}()

// errorValue writes an error as a call of the error's class.
func (w *reprWriter) errorValue(e *errorValue) {
	if fn := e.class.find("__repr__"); fn != nil || w.elides(e) {
		w.out.WriteString(e.String())
		return
	}
	w.out.WriteString(e.class.name)
	w.path = append(w.path, e)
	w.out.WriteByte('(')
	for i, x := range e.arguments() {
		w.element(i, x)
	}
	w.out.WriteByte(')')
	w.path = w.path[:len(w.path)-1]
}

// representer writes a value of a module, which may contain other values.
func (w *reprWriter) representer(v stdlib.Representer) {
	if w.elides(v) {
		w.out.WriteString("...")
		return
	}
	inner := &reprWriter{path: append(w.path, v)}
	w.out.WriteString(v.Repr(func(x starlark.Value) string {
		inner.out.Reset()
		inner.write(x)
		return inner.out.String()
	}))
}

func (w *reprWriter) element(i int, v starlark.Value) {
	if i > 0 {
		w.out.WriteString(", ")
	}
	w.write(v)
}

func (w *reprWriter) container(v starlark.Value, open, end string, elements func()) {
	w.out.WriteString(open)
	if w.elides(v) {
		w.out.WriteString("...")
	} else {
		w.path = append(w.path, v)
		elements()
		w.path = w.path[:len(w.path)-1]
	}
	w.out.WriteString(end)
}

// elides reports whether v is written as "...".
func (w *reprWriter) elides(v starlark.Value) bool {
	if len(w.path) >= abi.MaxDepth {
		return true
	}
	for _, p := range w.path {
		if sameContainer(p, v) {
			return true
		}
	}
	return false
}

// sameContainer reports whether two containers are identical. Tuples never are:
// their cycles go through a list or dict.
func sameContainer(x, y starlark.Value) bool {
	switch x := x.(type) {
	case *starlark.List:
		return starlark.Value(x) == y
	case Object:
		return starlark.Value(x) == y
	case stdlib.Representer, *errorValue:
		return starlark.Value(x) == y
	}
	return false
}
