package expect

import (
	"cmp"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
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
