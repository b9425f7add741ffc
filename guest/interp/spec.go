package interp

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
