package interp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// This file implements text % x and text.format(x). The library has no widths and
// precisions, and formats nested values by recursion without a limit: a deeply nested
// list would overflow the stack and end the guest without a position.

const formatMethod = "format"

// markModulo makes (markModulo | x) % y the same as x % y.
type markModulo struct{ operandOnly }

func (markModulo) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	if text, ok := x.(starlark.String); ok {
		return percent(text), nil
	}
	return x, nil
}

// percent is the text to the left of a %.
type percent starlark.String

func (p percent) String() string        { return string(p) }
func (percent) Type() string            { return "string" }
func (percent) Freeze()                 {}
func (p percent) Truth() starlark.Bool  { return p != "" }
func (p percent) Hash() (uint32, error) { return starlark.String(p).Hash() }

func (p percent) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	f := percentFormat{rest: string(p), given: y}
	if tuple, ok := y.(starlark.Tuple); ok {
		f.args = tuple
	} else {
		f.args = starlark.Tuple{y}
	}
	for f.literal() {
		if err := f.field(); err != nil {
			return nil, fmt.Errorf("%%: %w", err)
		}
	}
	if _, named := y.(starlark.Mapping); f.used < len(f.args) && !named {
		return nil, errors.New("%: there are more values than fields in the text")
	}
	return starlark.String(f.out.String()), nil
}

// percentFormat is the state of a text % y.
type percentFormat struct {
	out   strings.Builder
	rest  string
	given starlark.Value
	args  starlark.Tuple
	used  int
}

// literal writes the text before the next %, and reports whether a % follows.
func (f *percentFormat) literal() bool {
	before, after, found := strings.Cut(f.rest, "%")
	f.out.WriteString(before)
	f.rest = after
	return found
}

// field reads %(key)[flags][width][.precision]type.
func (f *percentFormat) field() error {
	if strings.HasPrefix(f.rest, "%") {
		f.out.WriteByte('%')
		f.rest = f.rest[1:]
		return nil
	}
	key, named, err := f.key()
	if err != nil {
		return err
	}
	end := strings.IndexFunc(f.rest, func(r rune) bool { return !strings.ContainsRune("#0- +.123456789*", r) })
	if end < 0 {
		return errors.New("a field has no type (write %% for the character)")
	}
	flags, verb := f.rest[:end], f.rest[end]
	f.rest = f.rest[end+1:]
	if strings.Contains(flags, "*") {
		return errors.New(`a width of * is not available (write f"{x:{width}}")`)
	}
	value := key
	if !named {
		if f.used >= len(f.args) {
			return errors.New("there are fewer values than fields in the text")
		}
		value = f.args[f.used]
		f.used++
	}
	return f.write(flags, verb, value)
}

// key is the value of %(key).
func (f *percentFormat) key() (v starlark.Value, named bool, err error) {
	if !strings.HasPrefix(f.rest, "(") {
		return nil, false, nil
	}
	name, after, found := strings.Cut(f.rest[1:], ")")
	if !found {
		return nil, true, errors.New("%( without a )")
	}
	f.rest = after
	dict, ok := f.given.(starlark.Mapping)
	if !ok {
		return nil, true, fmt.Errorf("%%(%s) needs a dict on the right, got %s", name, f.given.Type())
	}
	v, found, err = dict.Get(starlark.String(name))
	if err == nil && !found {
		err = fmt.Errorf("no key %q", name)
	}
	return v, true, err
}

func (f *percentFormat) write(flags string, verb byte, v starlark.Value) error {
	if _, number := v.(starlark.Int); flags == "" && (verb == 's' || verb == 'd' && number) {
		f.out.WriteString(text(v)) // the usual case
		return nil
	}
	spec := ""
	digits := strings.TrimLeft(flags, "#0- +")
	flags = flags[:len(flags)-len(digits)]
	switch verb {
	case 's':
		v = starlark.String(text(v))
	case 'r', 'a':
		v, verb = starlark.String(repr(v)), 's'
	case 'd', 'i', 'o', 'x', 'X':
		n, err := starlark.NumberToInt(v)
		if b, ok := v.(starlark.Bool); ok && err != nil {
			n, err = starlark.MakeInt(0), nil
			if b {
				n = starlark.MakeInt(1)
			}
		}
		if err != nil {
			return fmt.Errorf("%%%c needs a number, got %s", verb, v.Type())
		}
		v = n
		if verb == 'i' {
			verb = 'd'
		}
	case 'e', 'E', 'f', 'F', 'g', 'G':
		x, ok := starlark.AsFloat(v)
		if !ok {
			return fmt.Errorf("%%%c needs a number, got %s", verb, v.Type())
		}
		v = starlark.Float(x)
	case 'c':
		if s, ok := v.(starlark.String); ok {
			v, verb = s, 's'
		}
	default:
		return fmt.Errorf("%%%c is not a format type (write %%%% for the character)", verb)
	}
	switch {
	case strings.Contains(flags, "-"):
		spec = "<"
	case verb == 's' || !strings.Contains(flags, "0"):
		spec = ">"
	}
	for _, flag := range "+ #0" {
		if strings.ContainsRune(flags, flag) && verb != 's' && verb != 'c' && (flag != '0' || spec == "") && (flag != ' ' || !strings.Contains(flags, "+")) {
			spec += string(flag)
		}
	}
	parsed, err := parseSpec(spec + digits + string(verb))
	if err != nil {
		return err
	}
	out, err := parsed.format(v)
	f.out.WriteString(out)
	return err
}

// markMethod makes (markMethod | x.format) the attribute seen by scripts.
type markMethod struct{ operandOnly }

func (markMethod) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	return ownFormat(x), nil
}

// ownFormat replaces the library's method format of a string. Any other value is returned
// unchanged.
func ownFormat(v starlark.Value) starlark.Value {
	if f, ok := v.(*starlark.Builtin); ok && f.Name() == formatMethod {
		if text, ok := f.Receiver().(starlark.String); ok {
			return starlark.NewBuiltin(formatMethod, format).BindReceiver(text)
		}
	}
	return v
}

// format is text.format(...).
func format(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	s := braceFormat{args: args, kwargs: kwargs}
	var out strings.Builder
	if err := s.fill(&out, string(b.Receiver().(starlark.String)), 0); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return starlark.String(out.String()), nil
}

// braceFormat is the state of a text.format(...).
type braceFormat struct {
	args         starlark.Tuple
	kwargs       []starlark.Tuple
	next         int
	auto, manual bool
}

// fill writes text with filled-in fields; fields in a specification have depth 1.
func (s *braceFormat) fill(out *strings.Builder, text string, depth int) error {
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			out.WriteString(text)
			return nil
		}
		out.WriteString(text[:i])
		switch {
		case strings.HasPrefix(text[i+1:], text[i:i+1]):
			out.WriteByte(text[i])
			text = text[i+2:]
		case text[i] == '}':
			return errors.New("single '}' (write }} for the character)")
		default:
			end := fieldEnd(text[i+1:])
			if end < 0 || depth > 1 {
				return errors.New("'{' is not closed (write {{ for the character)")
			}
			if err := s.field(out, text[i+1:i+1+end], depth); err != nil {
				return err
			}
			text = text[i+1+end+1:]
		}
	}
	return nil
}

// fieldEnd returns the index of the closing } of a field, or -1.
func fieldEnd(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open == 0 {
				return i
			}
			open--
		}
	}
	return -1
}

// field writes name[!conversion][:spec].
func (s *braceFormat) field(out *strings.Builder, field string, depth int) error {
	name, spec, hasSpec := strings.Cut(field, ":")
	name, conversion, hasConversion := strings.Cut(name, "!")
	if hasConversion && (len(conversion) != 1 || !strings.Contains("rsa", conversion)) {
		return errors.New("a conversion is !r or !s")
	}
	v, err := s.lookup(name)
	if err != nil {
		return err
	}
	if hasConversion {
		v = convert(v, conversion[0])
	}
	if !hasSpec {
		out.WriteString(text(v))
		return nil
	}
	var inner strings.Builder
	if err := s.fill(&inner, spec, depth+1); err != nil {
		return err
	}
	parsed, err := parseSpec(inner.String())
	if err != nil {
		return err
	}
	formatted, err := parsed.format(v)
	out.WriteString(formatted)
	return err
}

// lookup finds the value of a field: by number, name, or order; then .attributes and [keys].
func (s *braceFormat) lookup(path string) (starlark.Value, error) {
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	v, err := s.argument(path[:end])
	for path = path[end:]; path != "" && err == nil; {
		n := strings.IndexAny(path[1:], ".[") + 1
		if n == 0 {
			n = len(path)
		}
		step := path[:n]
		path = path[n:]
		if step[0] == '.' {
			v, err = attribute(v, step[1:])
			continue
		}
		key, closed := strings.CutSuffix(step[1:], "]")
		if !closed {
			return nil, errors.New("'[' is not closed")
		}
		v, err = element(v, key)
	}
	return v, err
}

func (s *braceFormat) argument(name string) (starlark.Value, error) {
	n, err := strconv.Atoi(name)
	switch {
	case name == "":
		n = s.next
		s.next++
		s.auto = true
	case err == nil:
		s.manual = true
	default:
		for _, kv := range s.kwargs {
			if kv[0] == starlark.String(name) {
				return kv[1], nil
			}
		}
		return nil, fmt.Errorf("no argument is called %s", name)
	}
	switch {
	case s.auto && s.manual:
		return nil, errors.New("fields with numbers and {} cannot be mixed")
	case n < 0 || n >= len(s.args):
		return nil, fmt.Errorf("there are fewer values than fields in the text (%d)", len(s.args))
	}
	return s.args[n], nil
}

func attribute(v starlark.Value, name string) (starlark.Value, error) {
	if x, ok := v.(starlark.HasAttrs); ok {
		if found, err := x.Attr(name); found != nil || err != nil {
			return found, err
		}
	}
	return nil, fmt.Errorf("%s has no .%s", v.Type(), name)
}

func element(v starlark.Value, key string) (starlark.Value, error) {
	n, err := strconv.Atoi(key)
	switch x := v.(type) {
	case starlark.Mapping:
		var k starlark.Value = starlark.String(key)
		if err == nil {
			k = starlark.MakeInt(n)
		}
		found, ok, err := x.Get(k)
		if err == nil && !ok {
			err = fmt.Errorf("no key %s", k)
		}
		return found, err
	case starlark.Indexable:
		if err == nil && n >= 0 && n < x.Len() {
			return x.Index(n), nil
		}
	}
	return nil, fmt.Errorf("%s has no [%s]", v.Type(), key)
}

// markFormat makes (markFormat | y) the right operand of x.z %= y, where x.z cannot be
// marked. The library then formats y with our repr.
type markFormat struct{ operandOnly }

func (markFormat) Binary(op syntax.Token, x starlark.Value, side starlark.Side) (starlark.Value, error) {
	tuple, ok := x.(starlark.Tuple)
	if !ok {
		return asRepr(x), nil
	}
	out := make(starlark.Tuple, len(tuple))
	for i, v := range tuple {
		out[i] = asRepr(v)
	}
	return out, nil
}

// reprValue is a value formatted by the library with our repr.
type reprValue struct{ starlark.Value }

func (v reprValue) String() string { return repr(v.Value) }

func asRepr(v starlark.Value) starlark.Value {
	switch v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Set, Object:
		return reprValue{v}
	}
	return v
}

// getattrBuiltin is getattr(...), which can return the method format too.
func getattrBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Universe["getattr"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	return ownFormat(v), nil
}
