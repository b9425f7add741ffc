// Package nearest finds the known names probably meant by a wrong name, for "did you mean" hints.
// The comparison ignores the difference between upper and lower case, and between underscores and
// hyphens. All functions are safe for concurrent use.
//
// Names can come from hostile clients and servers, and comparing two takes time proportional to the
// product of their lengths. So names of more than MaxLength bytes get no hint and are in none, and
// of very many known names only the first are compared.
package nearest

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// maxNames is the number of names in a hint.
const maxNames = 3

// MaxLength is the length in bytes of the longest name in a comparison.
const MaxLength = 256

// maxWork is how many pairs of characters are compared for a hint, which takes some
// milliseconds.
const maxWork = 2_000_000

// comparison compares names with a single name.
type comparison struct {
	name string // folded
	size int    // in code points
	left int    // of maxWork
}

// newComparison returns nil if the name gets no hint.
func newComparison(name string) *comparison {
	if len(name) > MaxLength {
		return nil
	}
	folded := fold(name)
	return &comparison{folded, utf8.RuneCountInString(folded), maxWork}
}

// distance returns the number of edits between the name and another, folded name. ok is false for
// more than limit edits, or if the name is not compared.
func (c *comparison) distance(other string, limit int) (d int, ok bool) {
	size := utf8.RuneCountInString(other)
	if c.apart(other) > limit || c.left < c.size*size {
		return 0, false
	}
	c.left -= c.size * size
	d = levenshtein.ComputeDistance(c.name, other)
	return d, d <= limit
}

// apart returns the difference of the lengths of the name and another name, in code points. The
// difference is the number of edits if either name contains the other.
func (c *comparison) apart(other string) int {
	d := utf8.RuneCountInString(other) - c.size
	return max(d, -d)
}

// Names returns at most three of the known names, best first: names within [Limit] edits of name,
// then names that contain name or are contained in name.
func Names(name string, known []string) []string {
	c := newComparison(name)
	if c == nil {
		return nil
	}
	return c.names(known, Limit(len(name)))
}

func (c *comparison) names(known []string, limit int) []string {
	type candidate struct {
		name     string
		distance int
	}
	const contained = MaxLength // is added for names beyond the limit
	var found []candidate
	for _, k := range known {
		if len(k) > MaxLength {
			continue
		}
		other := fold(k)
		if d, ok := c.distance(other, limit); ok {
			found = append(found, candidate{k, d})
		} else if len(c.name) >= 3 && strings.Contains(other, c.name) || len(other) >= 3 && strings.Contains(c.name, other) {
			found = append(found, candidate{k, contained + c.apart(other)})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range found[:min(maxNames, len(found))] {
		names = append(names, f.name)
	}
	return names
}

// Name returns the known name with the fewest edits to name, "" if all need more than
// limit. The first of several equals is returned.
func Name(name string, known []string, limit int) string {
	c := newComparison(name)
	if c == nil {
		return ""
	}
	best := ""
	for _, k := range known {
		if len(k) > MaxLength {
			continue
		}
		if d, ok := c.distance(fold(k), limit); ok {
			if best, limit = k, d-1; d == 0 {
				break
			}
		}
	}
	return best
}

// Limit returns the usual maximum of edits in a misspelt name of n bytes. Two swapped letters are
// two edits.
func Limit(n int) int {
	if n >= 4 {
		return max((n+1)/3, 2)
	}
	return (n + 1) / 3
}

// fold returns a name in the form in which names are compared.
func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "_")) }
