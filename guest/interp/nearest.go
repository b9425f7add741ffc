package interp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

// nearest returns the candidate with the smallest edit distance to name, or "" if
// none is near. Case and underscores do not count. Of several at the same distance,
// the first wins.
func nearest(name string, candidates []string) string {
	const longest = 64 // longer names are not compared
	if len(name) > longest {
		return ""
	}
	folded := fold(name)
	best, bestDistance := "", (utf8.RuneCountInString(folded)+1)/2
	for _, c := range candidates {
		if len(c) > longest || c == name || strings.HasPrefix(c, parse.Hidden) {
			continue
		}
		if d := distance(folded, fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "_", ""))
}

// distance returns the Levenshtein distance in code points.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := diagonal
			if x[i] != y[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(y)]
}

// suggest returns the end of an error about an unknown name: the nearest candidate,
// or else the first few candidates.
func suggest(name string, candidates, all []string) string {
	if n := nearest(name, candidates); n != "" {
		return fmt.Sprintf(" (did you mean %s?)", n)
	}
	const shown = 8
	switch {
	case len(all) == 0:
		return " (it has no keys)"
	case len(all) <= shown:
		return fmt.Sprintf(" (it has: %s)", strings.Join(all, ", "))
	}
	return fmt.Sprintf(" (it has: %s and %d more)", strings.Join(all[:shown], ", "), len(all)-shown)
}
