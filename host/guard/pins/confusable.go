package pins

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mtibben/confusables"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// looks returns the looks of a name: two names with a common look can be taken for each other,
// because they differ only in case, in similar characters (the skeletons of Unicode Technical
// Standard 39), in invisible characters, or in the separator of words: "-", "." or "_". The result
// has at least one string, sorted and without duplicates.
func looks(name string) []string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		case unicode.Is(unicode.Pd, r), unicode.Is(unicode.Pc, r), unicode.IsSpace(r), r == '.':
			return '_'
		}
		return r
	}, norm.NFKC.String(name))
	fold := cases.Fold().String
	all := []string{confusables.Skeleton(fold(shown)), fold(confusables.Skeleton(shown))}
	slices.Sort(all)
	return slices.Compact(all)
}
