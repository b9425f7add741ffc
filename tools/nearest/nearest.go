// Package nearest finds the known names that a wrong name was probably meant to be, for
// "did you mean" hints. It ignores the difference between upper and lower case, and between
// underscores and hyphens. All functions are safe for concurrent use.
package nearest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxNames is the number of names in a hint.
const maxNames = 3

// Names returns at most three of the known names, best first: those within [Limit] edits of
// name, then those that contain name or are contained in it.
func Names(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	const contained = 100 // is added for those that are not within the limit
	var found []candidate
	folded := fold(name)
	for _, k := range known {
		other := fold(k)
		d := levenshtein.ComputeDistance(folded, other)
		switch {
		case d <= Limit(len(name)):
			found = append(found, candidate{k, d})
		case len(folded) >= 3 && strings.Contains(other, folded), len(other) >= 3 && strings.Contains(folded, other):
			found = append(found, candidate{k, contained + d})
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
	best, bestDistance := "", limit+1
	folded := fold(name)
	for _, k := range known {
		if d := levenshtein.ComputeDistance(folded, fold(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// Limit returns the number of edits that a misspelt name of n bytes usually has at most.
// Two swapped letters are two edits.
func Limit(n int) int {
	if n >= 4 {
		return max((n+1)/3, 2)
	}
	return (n + 1) / 3
}

// fold returns a name in the form in which names are compared.
func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "_")) }
