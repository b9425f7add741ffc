package expect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Equal compares two JSON values. Objects must have the same members in any order, and
// arrays the same items in the same order. Numbers are compared by value: 1, 1.0 and 10e-1
// are equal, and all digits count.
func Equal(want, got []byte) *Mismatch { return compareJSON(want, got, false) }

// Subset is like Equal, but objects may have more members than in want, at any depth. Arrays must
// have as many items as in want.
func Subset(want, got []byte) *Mismatch { return compareJSON(want, got, true) }

func compareJSON(want, got []byte, subset bool) *Mismatch {
	w, err := jsonvalue.Decode(want)
	if err != nil {
		return &Mismatch{Message: "what is expected cannot be compared: " + err.Error(), Want: display.ClipSize(string(want), maxShown)}
	}
	g, err := jsonvalue.Decode(got)
	if err != nil {
		return &Mismatch{Message: "the answer cannot be compared: " + err.Error(), Got: display.ClipSize(string(got), maxShown)}
	}
	return compareValues(w, g, subset)
}

func compareValues(want, got any, subset bool) *Mismatch {
	found := Differences(want, got, subset)
	if len(found) == 0 {
		return nil
	}
	m := found[0].mismatch()
	switch {
	case len(found) == maxDifferences:
		m.Message += fmt.Sprintf(" (the first of at least %d differences)", len(found))
	case len(found) > 1:
		m.Message += fmt.Sprintf(" (the first of %d differences)", len(found))
	}
	m.Diff = diffValues(want, got, subset)
	w, wantText := found[0].Want.(string)
	g, gotText := found[0].Got.(string)
	if wantText && gotText && len(found) == 1 {
		m.Diff = cmp.Or(diffTexts(w, g), m.Diff) // of the lines of the string, which JSON has in a single line
	}
	return m
}

// mismatch returns a Mismatch for a difference.
func (d Difference) mismatch() *Mismatch {
	m := &Mismatch{Path: d.Path()}
	if d.Kind != Unexpected {
		m.Want = Show(d.Want)
	}
	if d.Kind != Missing {
		m.Got = Show(d.Got)
	}
	noun := "member"
	if n := len(d.Steps); n > 0 {
		if _, ok := d.Steps[n-1].(int); ok {
			noun = "item"
		}
	}
	w, g := typeName(d.Want), typeName(d.Got)
	switch {
	case d.Kind == Missing:
		m.Message = noun + " is missing"
	case d.Kind == Unexpected:
		m.Message = "unexpected " + noun
	case w != g:
		m.Message = fmt.Sprintf("want %s, got %s", w, g)
	default:
		m.Message = "other value"
	}
	return m
}

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

// The limits of a shown Mismatch.
const (
	maxShown      = 500     // bytes of Want and of Got
	maxName       = 80      // bytes of a name in a path
	maxPath       = 500     // bytes of a path
	maxDiffLines  = 80      // lines of a diff
	maxDiffLine   = 240     // bytes of each line of a diff
	maxDiffString = 200     // bytes of a string in a diff of JSON
	maxDiffText   = 4 << 20 // bytes of each side; larger texts are not compared line by line
	maxDiffDepth  = 100     // levels of JSON in a diff
)

// Show returns a value of [jsonvalue.Decode] as compact JSON, clipped.
func Show(v any) string { return display.ClipSize(string(encode(v, "")), maxShown) }

// encode returns a value as JSON, with members sorted by name.
func encode(v any, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return []byte(err.Error()) // nested deeper than encoding/json supports
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// diffValues returns the diff of two different values; "" if Want and Got show both completely, or
// if they are too large.
func diffValues(want, got any, subset bool) string {
	w, isText := want.(string)
	if g, ok := got.(string); ok && isText {
		return diffTexts(w, g)
	}
	if !nested(want) || !nested(got) || depth(want) > maxDiffDepth || depth(got) > maxDiffDepth {
		return ""
	}
	return diffLines(encode(shorten(want), "  "), encode(shorten(align(want, got, subset)), "  "))
}

// diffTexts returns the diff of two texts; "" if both are single lines.
func diffTexts(want, got string) string {
	if !strings.Contains(want, "\n") && !strings.Contains(got, "\n") {
		return ""
	}
	return diffLines([]byte(want), []byte(got))
}

// diffLines returns the clipped unified diff of two texts. A missing newline at the end is ignored.
func diffLines(want, got []byte) string {
	if len(want) > maxDiffText || len(got) > maxDiffText {
		return ""
	}
	ends := func(text []byte) []byte {
		return append(bytes.TrimSuffix(text[:len(text):len(text)], []byte("\n")), '\n')
	}
	text := diff.Diff("want", ends(want), "got", ends(got))
	if len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:] // without the line "diff want got"
	var b strings.Builder
	for i, line := range lines {
		if i == maxDiffLines {
			fmt.Fprintf(&b, "… (%d more lines)\n", len(lines)-i)
			break
		}
		b.WriteString(display.ClipSize(line, maxDiffLine))
		b.WriteByte('\n')
	}
	return b.String()
}

// nested reports whether a value contains other values.
func nested(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// depth returns how deep objects and arrays are nested, 0 for a scalar.
func depth(v any) int {
	deepest := -1
	switch v := v.(type) {
	case map[string]any:
		for _, sub := range v {
			deepest = max(deepest, depth(sub))
		}
	case []any:
		for _, sub := range v {
			deepest = max(deepest, depth(sub))
		}
	default:
		return 0
	}
	return max(deepest, 0) + 1
}

// align returns got in a form that is easy to compare with want: equal numbers are written as in
// want, and for a subset only members in want are left.
func align(want, got any, subset bool) any {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return got
		}
		aligned := make(map[string]any, len(g))
		for name, sub := range g {
			if wanted, ok := w[name]; ok {
				aligned[name] = align(wanted, sub, subset)
			} else if !subset {
				aligned[name] = sub
			}
		}
		return aligned
	case []any:
		w, ok := want.([]any)
		if !ok {
			return got
		}
		aligned := make([]any, len(g))
		for i, sub := range g {
			if aligned[i] = sub; i < len(w) {
				aligned[i] = align(w[i], sub, subset)
			}
		}
		return aligned
	case json.Number:
		if sameScalar(want, got) {
			return want
		}
	}
	return got
}

// shorten shortens long strings so that different strings stay different.
func shorten(v any) any {
	switch v := v.(type) {
	case map[string]any:
		short := make(map[string]any, len(v))
		for name, sub := range v {
			short[name] = shorten(sub)
		}
		return short
	case []any:
		short := make([]any, len(v))
		for i, sub := range v {
			short[i] = shorten(sub)
		}
		return short
	case string:
		if len(v) > maxDiffString {
			sum := sha256.Sum256([]byte(v))
			return fmt.Sprintf("%s sha256:%x", display.ClipSize(v, maxDiffString), sum[:6])
		}
	}
	return v
}
