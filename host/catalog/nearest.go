package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns at most three of known that name was probably meant to be,
// best first.
func Nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	lower := strings.ToLower(name)
	for _, k := range known {
		kl := strings.ToLower(k)
		d := levenshtein.ComputeDistance(lower, kl)
		switch {
		case d <= 1+len(name)/4:
			found = append(found, candidate{k, d})
		case len(name) >= 3 && (strings.Contains(kl, lower) || strings.Contains(lower, kl) && len(kl) >= 3):
			found = append(found, candidate{k, 100 + d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range found[:min(3, len(found))] {
		names = append(names, f.name)
	}
	return names
}
