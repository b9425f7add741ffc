package interp

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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

// A formatSpec is the format specification after the colon of a field, as in Python:
// [[fill]align][sign][#][0][width][,][.precision][type]. The zero value is an empty
// specification.
type formatSpec struct {
	text      string // as written
	fill      rune   // 0: a space
	align     byte   // < > ^ = or 0
	sign      byte   // + - space or 0
	alternate bool   // #
	zero      bool
	width     int
	group     byte // , _ or 0
	precise   bool
	precision int
	verb      byte // or 0
	special   bool // only for values with special formats
}

// maxFormatWidth limits width and precision.
const maxFormatWidth = 10_000

// parseSpec reads a format specification.
func parseSpec(text string) (formatSpec, error) {
	f := formatSpec{text: text}
	rest := text
	take := func(set string) byte {
		if rest != "" && strings.IndexByte(set, rest[0]) >= 0 {
			c := rest[0]
			rest = rest[1:]
			return c
		}
		return 0
	}
	number := func() (n int, ok bool) {
		for rest != "" && '0' <= rest[0] && rest[0] <= '9' && n <= maxFormatWidth {
			n, ok = n*10+int(rest[0]-'0'), true
			rest = rest[1:]
		}
		return n, ok
	}
	if fill, n := utf8.DecodeRuneInString(rest); n > 0 && n < len(rest) && strings.IndexByte("<>^=", rest[n]) >= 0 {
		f.fill, f.align, rest = fill, rest[n], rest[n+1:]
	} else {
		f.align = take("<>^=")
	}
	f.sign = take("+- ")
	f.alternate = take("#") != 0
	f.zero = take("0") != 0
	f.width, _ = number()
	f.group = take(",_")
	if take(".") != 0 {
		if f.precision, f.precise = number(); !f.precise {
			return f, fmt.Errorf("format %q: a precision is missing after the dot", text)
		}
	}
	f.verb = take("sdboxXcneEfFgG%")
	switch {
	case rest != "" && strings.Contains(text, "%"): // of a date, or unknown
		f.special = true
	case rest != "":
		return f, fmt.Errorf("format %q is unknown (there are widths, < > ^ for alignment, + , 0 and .2 for numbers, and the types s d b o x X e f g %%)", text)
	case f.width > maxFormatWidth || f.precision > maxFormatWidth:
		return f, fmt.Errorf("format %q: no width or precision may be above %d", text, maxFormatWidth)
	}
	return f, nil
}

var errFormat = errors.New("wrong format")

// format returns the text of a value.
func (f formatSpec) format(v starlark.Value) (string, error) {
	if i := instanceOf(v); i != nil {
		if fn := i.method("__format__"); fn != nil {
			v, err := i.call(fn, starlark.String(f.text))
			if err != nil {
				return "", err
			}
			return text(v), nil
		}
	}
	if f.text == "" {
		return text(v), nil
	}
	switch v := v.(type) {
	case starlark.String, starlark.Int, starlark.Float, starlark.Bool: // to ask for an interface takes long
	case stdlib.Formatter:
		return v.Format(f.text)
	}
	out, err := "", errFormat
	if f.special {
		return "", fmt.Errorf("format %q is unknown for a %s", f.text, v.Type())
	}
	switch v := v.(type) {
	case starlark.String:
		out, err = f.string(string(v))
	case starlark.Bool:
		n := starlark.MakeInt(0)
		if v {
			n = starlark.MakeInt(1)
		}
		if f.verb == 's' {
			break
		}
		out, err = f.int(n)
	case starlark.Int:
		out, err = f.int(v)
	case starlark.Float:
		out, err = f.float(float64(v))
	default:
		return "", fmt.Errorf("a %s cannot be written with format %q (write str(x) for x)", v.Type(), f.text)
	}
	if err != nil {
		return "", fmt.Errorf("a %s cannot be written with format %q", v.Type(), f.text)
	}
	return out, nil
}

func (f formatSpec) string(s string) (string, error) {
	if f.verb != 0 && f.verb != 's' || f.sign != 0 || f.align == '=' || f.group != 0 || f.alternate {
		return "", errFormat
	}
	if f.precise {
		n := 0
		for i := range s {
			if n == f.precision {
				s = s[:i]
				break
			}
			n++
		}
	}
	return f.pad("", s, '<'), nil
}

func (f formatSpec) int(v starlark.Int) (string, error) {
	switch f.verb {
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		x := float64(v.Float())
		if math.IsInf(x, 0) {
			return "", errFormat
		}
		return f.float(x)
	case 's':
		return "", errFormat
	}
	if f.precise {
		return "", errFormat
	}
	if f.verb == 'c' {
		n, ok := v.Int64()
		if !ok || n < 0 || n > utf8.MaxRune || f.sign != 0 {
			return "", errFormat
		}
		return f.pad("", string(rune(n)), '<'), nil
	}
	base, group, prefix := 10, 3, ""
	switch f.verb {
	case 'b':
		base, group, prefix = 2, 4, "0b"
	case 'o':
		base, group, prefix = 8, 4, "0o"
	case 'x', 'X':
		base, group, prefix = 16, 4, "0"+string(f.verb)
	}
	if base != 10 && f.group == ',' {
		return "", errFormat
	}
	if !f.alternate {
		prefix = ""
	}
	digits, negative := v.String(), false
	if base != 10 {
		digits = v.BigInt().Text(base)
	}
	digits, negative = strings.CutPrefix(digits, "-")
	if f.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return f.number(negative, prefix, digits, "", group), nil
}

func (f formatSpec) float(v float64) (string, error) {
	verb, precision := f.verb, f.precision
	if !f.precise {
		precision = 6
	}
	suffix := ""
	switch verb {
	case '%':
		v, verb, suffix = v*100, 'f', "%"
	case 'F':
		verb = 'f'
	case 'n':
		verb = 'g'
	case 0, 'e', 'E', 'f', 'g', 'G':
	default:
		return "", errFormat
	}
	var out string
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		out = stdlib.FloatText(math.Abs(v))
		if f.verb == 'E' || f.verb == 'F' || f.verb == 'G' {
			out = strings.ToUpper(out)
		}
	case verb == 0 && !f.precise:
		out = stdlib.FloatText(math.Abs(v))
	case verb == 0:
		out = shortened(math.Abs(v), max(precision, 1))
	case verb == 'g' || verb == 'G':
		out = strconv.FormatFloat(math.Abs(v), verb, max(precision, 1), 64)
	default:
		out = strconv.FormatFloat(math.Abs(v), verb, precision, 64)
	}
	whole := 0
	for whole < len(out) && '0' <= out[whole] && out[whole] <= '9' {
		whole++
	}
	return f.number(math.Signbit(v) && !math.IsNaN(v), "", out[:whole], out[whole:]+suffix, 3), nil
}

// shortened returns a float with a number of significant digits, and always with a point or an
// exponent.
func shortened(v float64, digits int) string {
	out := strconv.FormatFloat(v, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(out, "e")
	if n, err := strconv.Atoi(exponent); err == nil && (n < -4 || n >= digits-1) {
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + exponent
	}
	out = strconv.FormatFloat(v, 'g', digits, 64)
	if !strings.Contains(out, ".") {
		out += ".0"
	}
	return out
}

// number joins the parts of a number: digits are grouped, and after follows them.
func (f formatSpec) number(negative bool, prefix, digits, after string, group int) string {
	sign := ""
	switch {
	case negative:
		sign = "-"
	case f.sign == '+' || f.sign == ' ':
		sign = string(f.sign)
	}
	sign += prefix
	if f.group == 0 {
		return f.pad(sign, digits+after, '>')
	}
	if f.zero && f.align == 0 || f.align == '=' && f.fill == '0' {
		// The zeros are grouped too.
		for len(sign)+grouped(len(digits), group)+len(after) < f.width {
			digits = "0" + digits
		}
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%group == 0 {
			b.WriteByte(f.group)
		}
		b.WriteByte(digits[i])
	}
	return f.pad(sign, b.String()+after, '>')
}

// grouped returns the length of n digits with the separators of their groups.
func grouped(n, group int) int { return n + max(0, n-1)/group }

// pad pads a text to the width.
func (f formatSpec) pad(sign, s string, align byte) string {
	fill := f.fill
	switch {
	case f.align != 0:
		align = f.align
		if fill == 0 && f.zero {
			fill = '0'
		}
	case f.zero:
		fill = '0'
		if align == '>' {
			align = '='
		}
	}
	if fill == 0 {
		fill = ' '
	}
	missing := f.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(s)
	if missing <= 0 {
		return sign + s
	}
	padding := func(n int) string { return strings.Repeat(string(fill), n) }
	switch align {
	case '<':
		return sign + s + padding(missing)
	case '^':
		return padding(missing/2) + sign + s + padding(missing-missing/2)
	case '=':
		return sign + padding(missing) + s
	}
	return padding(missing) + sign + s
}
