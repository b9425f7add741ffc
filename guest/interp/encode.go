package interp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/json"
)

// errTooLarge is the error for an encoding larger than abi.MaxMessage.
var errTooLarge = errors.New("larger than a message may be")

// errTooDeep is the error for JSON nested too deep, in reading or writing.
var errTooDeep = fmt.Errorf("nested deeper than %d levels, a fixed limit", abi.MaxDepth)

// encodeJSON encodes a value as JSON (RFC 8259): dicts with string keys in order, lists, tuples,
// sets and other sequences as arrays, integers with all their digits, floats so that they read back
// as the same float. A value without a JSON form is an error with the value's path; root is the
// path of v itself.
//
// An encoding larger than abi.MaxMessage is errTooLarge.
func encodeJSON(root string, v starlark.Value) ([]byte, error) {
	return encodeWithin(abi.MaxMessage, root, v)
}

// encodeWithin is encodeJSON with a limit in bytes, which is checked before each
// container and each element of a sequence.
func encodeWithin(limit int, root string, v starlark.Value) ([]byte, error) {
	return (&encoder{limit: limit}).encode(root, v)
}

func (e *encoder) encode(root string, v starlark.Value) ([]byte, error) {
	e.buf = make([]byte, 0, 256)
	e.yield = e.member
	if err := e.value(v); err != nil {
		return nil, err.under(root)
	}
	return e.buf, nil
}

// An encoder writes a JSON text in a single pass.
type encoder struct {
	buf   []byte
	limit int
	open  []starlark.Value // the containers being written
	// yield is the method member, bound once instead of for each object.
	yield func(k, v starlark.Value) bool
	err   *encodeError // of member
	run   *run         // nil unless withheld answers can be in the text
	shows bool         // withheld answers are marked
	// repaired reports that a key of the innermost object was invalid UTF-8.
	repaired bool
}

// encodeError collects the path while the encoder returns, innermost step first.
type encodeError struct {
	steps []string
	err   error
	keep  int // if not 0, the path has only this number of the outermost steps
}

func unencodable(format string, args ...any) *encodeError {
	return &encodeError{err: fmt.Errorf(format, args...)}
}

func (e *encodeError) at(step string) *encodeError {
	e.steps = append(e.steps, step)
	return e
}

// atKey adds a dict's key to the path.
func (e *encodeError) atKey(key string) *encodeError {
	if isIdentifier(key) {
		return e.at("." + key)
	}
	return e.at(fmt.Sprintf("[%q]", key))
}

func (e *encodeError) atIndex(i int) *encodeError {
	return e.at("[" + strconv.Itoa(i) + "]")
}

// under returns the final error. A very deep path is cut in the middle.
func (e *encodeError) under(root string) error {
	const shown = 6
	if e.keep > 0 {
		e.steps = e.steps[len(e.steps)-e.keep:]
	}
	path := root
	for i := len(e.steps) - 1; i >= 0; i-- {
		if n := len(e.steps); n > 2*shown && i == n-1-shown {
			path += "..."
			i = shown
			continue
		}
		path += e.steps[i]
	}
	return fmt.Errorf("%s: %w", path, e.err)
}

func (e *encoder) value(v starlark.Value) *encodeError {
	switch v := v.(type) {
	case starlark.String:
		e.buf = appendString(e.buf, string(v))
	case Object:
		return e.object(v)
	case *starlark.List:
		return e.list(v)
	case starlark.Int:
		e.buf = appendInt(e.buf, v)
	case starlark.Bool:
		e.buf = strconv.AppendBool(e.buf, bool(v))
	case starlark.NoneType:
		e.buf = append(e.buf, "null"...)
	case starlark.Float:
		return e.float(float64(v))
	case starlark.Bytes:
		return unencodable("bytes have no JSON form (convert them with str)")
	case *errorValue:
		return e.object(v.object())
	case *withheld:
		switch {
		case e.run != nil:
			e.buf = appendString(e.buf, e.run.marker+v.number)
		case e.shows:
			e.buf = appendString(e.buf, v.shown())
		default:
			panic(v.look("its text is needed"))
		}
	case stdlib.DictLike:
		return e.object(Object{v.Underlying()})
	case *instance, *iterable:
		return e.instance(instanceOf(v))
	case *class:
		if v.enum == nil {
			return unencodable("a class has no JSON form (did you mean to call it, with parentheses?)")
		}
		return e.iterable(v)
	case stdlib.JSONValue:
		return e.value(v.JSONValue())
	case stdlib.Texter: // dates, UUIDs
		e.buf = appendString(e.buf, v.Str())
	case starlark.Iterable:
		return e.iterable(v)
	case starlark.Callable:
		return unencodable("a %s has no JSON form (did you mean to call it, with parentheses?)", v.Type())
	default:
		return unencodable("a %s has no JSON form", v.Type())
	}
	return nil
}

// enter opens a container.
func (e *encoder) enter(v starlark.Value) *encodeError {
	switch {
	case len(e.buf) > e.limit:
		return e.tooLarge()
	case len(e.open) >= abi.MaxDepth:
		if n := e.repeats(); n > 0 {
			return &encodeError{err: errors.New("it is part of itself"), keep: n}
		}
		return &encodeError{err: errTooDeep}
	}
	e.open = append(e.open, v)
	return nil
}

func (e *encoder) tooLarge() *encodeError {
	return &encodeError{err: fmt.Errorf("%w (%d bytes)", errTooLarge, e.limit)}
}

func (e *encoder) leave() { e.open = e.open[:len(e.open)-1] }

// repeats returns the number of steps to the first container open twice, 0 without one. It is
// called only at the limit of depth, reached by every cycle.
func (e *encoder) repeats() int {
	seen := make(map[starlark.Value]bool)
	for i, v := range e.open {
		switch v.(type) {
		case Object, *starlark.List:
			if seen[v] {
				return i
			}
			seen[v] = true
		}
	}
	return 0
}

func (e *encoder) object(o Object) *encodeError {
	if err := e.enter(o); err != nil {
		return err
	}
	e.buf = append(e.buf, '{')
	outer := e.repaired
	e.repaired = false
	o.Dict.Entries()(e.yield)
	if e.err != nil {
		return e.err
	}
	if e.repaired {
		if err := checkNames(o); err != nil {
			return err
		}
	}
	e.repaired = outer
	e.buf = append(e.buf, '}')
	e.leave()
	return nil
}

// member writes a member of an object and reports whether to go on.
func (e *encoder) member(k, v starlark.Value) bool {
	key := keyText(k)
	if e.buf[len(e.buf)-1] != '{' { // no value ends like this
		e.buf = append(e.buf, ',')
	}
	e.buf = appendString(e.buf, key)
	e.buf = append(e.buf, ':')
	if _, isText := k.(starlark.String); !isText || !utf8.ValidString(key) {
		e.repaired = true
	}
	if err := e.value(v); err != nil {
		e.err = err.atKey(key)
		return false
	}
	return true
}

// keyText returns a key in JSON: numbers, bools and None as in Python, anything else by repr.
func keyText(k starlark.Value) string {
	switch k := k.(type) {
	case starlark.String:
		return string(k)
	case starlark.Bool:
		return strconv.FormatBool(bool(k))
	case starlark.NoneType:
		return "null"
	}
	return repr(k)
}

// instance writes the fields of a value of a class, and the value of a member of an
// enumeration.
func (e *encoder) instance(i *instance) *encodeError {
	if i.class.enum != nil {
		return e.value(i.attrs["value"])
	}
	if fn := i.method(jsonMethod); fn != nil {
		if err := e.enter(i.self); err != nil {
			return err
		}
		defer e.leave()
		v, err := i.call(fn)
		if err != nil {
			return &encodeError{err: err}
		}
		return e.value(v)
	}
	o := newObject(len(i.names))
	for _, name := range i.names {
		_ = o.Dict.SetKey(starlark.String(name), i.attrs[name])
	}
	return e.object(o)
}

// jsonMethod is the method of a class of a module in Python for the JSON form of a value.
const jsonMethod = "__json__"

// checkNames refuses an object with two keys equal in JSON, where invalid UTF-8 becomes U+FFFD.
func checkNames(o Object) *encodeError {
	seen := make(map[string]bool, o.Len())
	for k := range o.Entries() {
		name := string(appendString(nil, keyText(k)))
		if seen[name] {
			return unencodable("two keys are both %s in JSON (keys are text there; bytes that are not UTF-8 become \uFFFD)", clip(name, 100))
		}
		seen[name] = true
	}
	return nil
}

func (e *encoder) list(l *starlark.List) *encodeError {
	if err := e.enter(l); err != nil {
		return err
	}
	e.buf = append(e.buf, '[')
	for i := range l.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(l.Index(i)); err != nil {
			return err.atIndex(i)
		}
	}
	e.buf = append(e.buf, ']')
	e.leave()
	return nil
}

// iterable writes tuples, sets, ranges and the like.
func (e *encoder) iterable(v starlark.Iterable) *encodeError {
	if err := e.enter(v); err != nil {
		return err
	}
	e.buf = append(e.buf, '[')
	i := 0
	var failure *encodeError
	err := each(v, func(x starlark.Value) error {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if len(e.buf) > e.limit { // a range can be long, and has no inner containers
			failure = e.tooLarge()
			return errStop
		}
		if err := e.value(x); err != nil {
			failure = err.atIndex(i)
			return errStop
		}
		i++
		return nil
	})
	switch {
	case failure != nil:
		return failure
	case err != nil:
		return &encodeError{err: err}
	}
	e.buf = append(e.buf, ']')
	e.leave()
	return nil
}

func (e *encoder) float(f float64) *encodeError {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return unencodable("%s has no JSON form", stdlib.FloatText(f))
	}
	e.buf = appendFloat(e.buf, f)
	return nil
}

// appendFloat appends a finite float in the shortest form for the same float, always with a point
// or an exponent, so the number stays a float.
func appendFloat(buf []byte, f float64) []byte {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	start := len(buf)
	buf = strconv.AppendFloat(buf, f, format, -1, 64)
	n := len(buf)
	switch {
	case format == 'f' && bytes.IndexByte(buf[start:], '.') < 0:
		buf = append(buf, ".0"...)
	case format == 'e' && buf[n-2] == '0' && buf[n-3] == '-': // 1e-07
		buf[n-2] = buf[n-1]
		buf = buf[:n-1]
	}
	return buf
}

func appendInt(buf []byte, v starlark.Int) []byte {
	if n, ok := v.Int64(); ok {
		return strconv.AppendInt(buf, n, 10)
	}
	return v.BigInt().Append(buf, 10)
}

// plainByte marks the bytes that stand for themselves in a JSON string, whatever their neighbours.
var plainByte = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// appendString appends a JSON string. Only necessary escapes are used.
func appendString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	start, i := 0, 0
	for {
		for i < len(s) && plainByte[s[i]] {
			i++
		}
		if i == len(s) {
			buf = append(buf, s[start:]...)
			return append(buf, '"')
		}
		if s[i] >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n != 1 {
				i += n
				continue
			}
		}
		buf = append(buf, s[start:i]...)
		buf = appendEscaped(buf, s[i])
		i++
		start = i
	}
}

// appendEscaped appends the escape sequence of a byte.
func appendEscaped(buf []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c >= utf8.RuneSelf: // not UTF-8
		return append(buf, "\uFFFD"...)
	case c == '"', c == '\\':
		return append(buf, '\\', c)
	case c == '\n':
		return append(buf, '\\', 'n')
	case c == '\r':
		return append(buf, '\\', 'r')
	case c == '\t':
		return append(buf, '\\', 't')
	}
	return append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// jsonModule has the functions of Python's json module and of Starlark's. Unlike the library's,
// encode keeps the order of dicts instead of sorting their keys.
var jsonModule = &module{
	name: "json",
	members: withOwn(json.Module(), starlark.StringDict{
		"decode":        starlark.NewBuiltin("json.decode", jsonDecode),
		"encode":        starlark.NewBuiltin("json.encode", jsonEncode),
		"encode_indent": starlark.NewBuiltin("json.encode_indent", jsonEncodeIndent),
		"indent":        starlark.NewBuiltin("json.indent", jsonIndent),
	}),
	instead: map[string]string{"parse": "json.loads(text)", "stringify": "json.dumps(value)"},
}

func jsonDecode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var fallback starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &text, "default?", &fallback); err != nil {
		return nil, err
	}
	v, err := decodeJSONString(text)
	if err != nil {
		if fallback != nil {
			return fallback, nil
		}
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return v, nil
}

func jsonEncode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 || len(args) == 2 {
		return nil, fmt.Errorf("%s takes one value and nothing else (for indented text write json.encode_indent(value, indent=\"  \"))", b.Name())
	}
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &v); err != nil {
		return nil, err
	}
	text, err := encodeJSON("value", v)
	if err != nil {
		return nil, runOf(thread).encodeFailed(b.Name(), err)
	}
	return starlark.String(text), nil
}

func jsonEncodeIndent(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := jsonEncode(thread, b, args, nil)
	if err != nil {
		return nil, err
	}
	prefix, unit, err := indentArgs(b, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.String(indent(string(v.(starlark.String)), prefix, unit)), nil
}

func jsonIndent(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	prefix, unit, err := indentArgs(b, kwargs)
	if err != nil {
		return nil, err
	}
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &text); err != nil {
		return nil, err
	}
	if _, err := decodeJSONString(text); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return starlark.String(indent(text, prefix, unit)), nil
}

func indentArgs(b *starlark.Builtin, kwargs []starlark.Tuple) (prefix, unit string, err error) {
	unit = "\t"
	err = starlark.UnpackArgs(b.Name(), nil, kwargs, "prefix?", &prefix, "indent?", &unit)
	return prefix, unit, err
}

// indent lays out valid JSON over several lines; tokens are unchanged.
func indent(text, prefix, unit string) string {
	var b strings.Builder
	depth := 0
	newline := func() {
		b.WriteString("\n" + prefix)
		for range depth {
			b.WriteString(unit)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r':
		case '{', '[':
			b.WriteByte(c)
			rest := strings.TrimLeft(text[i+1:], " \t\r\n")
			if rest[0] == '}' || rest[0] == ']' { // an empty container stays on the line
				b.WriteByte(rest[0])
				i = len(text) - len(rest)
				continue
			}
			depth++
			newline()
		case '}', ']':
			depth--
			newline()
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			newline()
		case ':':
			b.WriteString(": ")
		case '"':
			end := i + 1
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			b.WriteString(text[i : end+1])
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
