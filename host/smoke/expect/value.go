package expect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Kind is a kind of difference.
type Kind string

// The kinds of differences.
const (
	Missing    Kind = "missing"    // an expected member or item
	Unexpected Kind = "unexpected" // an unexpected member or item
	Different  Kind = "different"
)

// Difference is a place where two JSON values differ.
type Difference struct {
	Kind Kind
	// Steps lead to the place: a string for a member, an int for an item.
	Steps []any
	// Want and Got are the values at the path: nil, bool, string, json.Number, []any or
	// map[string]any. A missing value is nil.
	Want, Got any
}

// maxDifferences is the number of differences after which the comparison stops.
const maxDifferences = 1000

// Differences returns the places where two values of [jsonvalue.Decode] differ (see [Equal], and
// [Subset] if subset is true), sorted by path: members by name, items by index. The result has at
// most 1000 places.
func Differences(want, got any, subset bool) []Difference {
	c := comparison{subset: subset}
	c.values(want, got)
	return c.found
}

// comparison walks two values.
type comparison struct {
	subset bool
	steps  []any
	found  []Difference
}

func (c *comparison) add(kind Kind, want, got any) {
	if len(c.found) < maxDifferences {
		c.found = append(c.found, Difference{kind, slices.Clone(c.steps), want, got})
	}
}

// at calls f a step deeper.
func (c *comparison) at(step any, f func()) {
	c.steps = append(c.steps, step)
	f()
	c.steps = c.steps[:len(c.steps)-1]
}

func (c *comparison) values(want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			c.objects(w, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			c.arrays(w, g)
			return
		}
	default:
		if sameScalar(want, got) {
			return
		}
	}
	c.add(Different, want, got)
}

func (c *comparison) objects(want, got map[string]any) {
	names := slices.Collect(maps.Keys(want))
	if !c.subset {
		for name := range got {
			if _, ok := want[name]; !ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if len(c.found) == maxDifferences {
			return
		}
		w, wanted := want[name]
		g, came := got[name]
		c.at(name, func() {
			switch {
			case !came:
				c.add(Missing, w, nil)
			case !wanted:
				c.add(Unexpected, nil, g)
			default:
				c.values(w, g)
			}
		})
	}
}

func (c *comparison) arrays(want, got []any) {
	for i := range max(len(want), len(got)) {
		if len(c.found) == maxDifferences {
			return
		}
		c.at(i, func() {
			switch {
			case i >= len(got):
				c.add(Missing, want[i], nil)
			case i >= len(want):
				c.add(Unexpected, nil, got[i])
			default:
				c.values(want[i], got[i])
			}
		})
	}
}

// Path returns the clipped path of the difference: "$.a[2].b".
func (d Difference) Path() string { return pathOf(d.Steps) }

func pathOf(steps []any) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range steps {
		if b.Len() > maxPath {
			return b.String() + "…"
		}
		if name, ok := s.(string); ok {
			b.WriteString(step(name))
		} else {
			fmt.Fprintf(&b, "[%d]", s)
		}
	}
	return b.String()
}

var identifier = lazyregexp.New(`^[\pL_$][\pL\pN_$-]*$`)

// step returns the step of a path to a member.
func step(name string) string {
	name = display.ClipSize(name, maxName)
	if identifier.MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

// sameScalar compares two values, at least one of which is a scalar.
func sameScalar(want, got any) bool {
	switch w := want.(type) {
	case json.Number:
		g, ok := got.(json.Number)
		return ok && compareNumbers(w.String(), g.String()) == 0
	case string:
		g, ok := got.(string)
		return ok && g == w
	case bool:
		g, ok := got.(bool)
		return ok && g == w
	}
	return want == nil && got == nil
}

// decimal is 0.DIGITS * 10^exp, without zeros at either end of digits.
type decimal struct {
	sign   int // -1, 0, 1
	digits string
	exp    *big.Int
}

// readDecimal reads a JSON number. No power is computed, so 1e999999999 is cheap.
func readDecimal(s string) decimal {
	d := decimal{sign: 1, exp: new(big.Int)}
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		d.sign, s = -1, rest
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		d.exp.SetString(strings.TrimPrefix(s[i+1:], "+"), 10)
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	leading := len(whole) + len(fraction) - len(d.digits)
	d.exp.Add(d.exp, big.NewInt(int64(len(whole)-leading)))
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{exp: new(big.Int)}
	}
	return d
}

// compareNumbers returns -1, 0 or 1 if a is less than, equal to or greater than b, exactly. Both
// are JSON numbers. Numbers with a very long exponent are compared as texts, because reading an
// exponent takes time quadratic in its length.
func compareNumbers(a, b string) int {
	if a == b {
		return 0
	}
	if longExponent(a) || longExponent(b) {
		return strings.Compare(a, b)
	}
	x, y := readDecimal(a), readDecimal(b)
	if x.sign != y.sign {
		return sign(x.sign - y.sign)
	}
	if c := x.exp.Cmp(y.exp); c != 0 {
		return c * x.sign
	}
	return strings.Compare(x.digits, y.digits) * x.sign
}

func longExponent(number string) bool {
	i := strings.IndexAny(number, "eE")
	return i >= 0 && len(number)-i > jsonvalue.MaxNumberDigits
}

func sign(n int) int { return max(-1, min(n, 1)) }

// typeName returns the name of a value's type for people.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}
