package stdlib

import (
	"math"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
)

// Representer is implemented by values with other values inside: Repr is their text, made with the
// texts of these values.
type Representer interface {
	starlark.Value
	Repr(repr func(starlark.Value) string) string
}

// PlainRepr is the text of a value inside another value where no Env is at hand.
func PlainRepr(v starlark.Value) string { return v.String() }

// JoinRepr returns the texts of values with ", " between them.
func JoinRepr(values []starlark.Value, repr func(starlark.Value) string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(repr(v))
	}
	return b.String()
}

// FloatText returns a float in the form of Python's repr.
func FloatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Texter is implemented by values with a str different from their repr.
type Texter interface {
	starlark.Value
	Str() string
}

// Formatter is implemented by values with their own formats in f-strings and format: Format is the
// text for a non-empty specification after the colon.
type Formatter interface {
	starlark.Value
	Format(spec string) (string, error)
}

// Copier is implemented by containers of modules: CopyWith returns a copy, made with copies of the
// content.
type Copier interface {
	starlark.Value
	CopyWith(element func(starlark.Value) (starlark.Value, error)) (starlark.Value, error)
}
