package pins

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mtibben/confusables"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// looks returns what a name looks like: two names that have one of these in common can be
// taken for each other, because they differ only in case, in characters that look alike
// (the skeletons of Unicode Technical Standard 39), in characters that are not shown, or in
// which of "-", "." and "_" separates their words. It returns at least one string, sorted
// and without duplicates.
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
