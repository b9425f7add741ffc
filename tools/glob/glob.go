// Package glob matches names with patterns: those of expose and hide, of policy rules and
// of permissions.
//
// A pattern is one of [path.Match], except that slashes are characters like others: *
// stands for any text, ? for one character, [a-z] for one out of a range, and \ before a
// character for that character. It has to match the whole name.
package glob

import (
	"path"
	"strings"
)

// Valid reports whether a pattern is well formed and not empty.
func Valid(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}

// Match reports whether a pattern matches a name. A malformed pattern matches nothing.
func Match(pattern, name string) bool {
	if strings.Contains(pattern, "/") || strings.Contains(name, "/") {
		slash := substitute(pattern, name)
		pattern, name = strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash)
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// substitute returns a character that is in neither of two texts. It stands for slashes,
// which [path.Match] treats differently.
func substitute(a, b string) string {
	const first = '\x01'
	if !strings.ContainsRune(a, first) && !strings.ContainsRune(b, first) {
		return string(first)
	}
	used := map[rune]bool{}
	for _, text := range []string{a, b} {
		for _, r := range text {
			used[r] = true
		}
	}
	for r := '\ue000'; ; r++ { // no character that means something in a pattern
		if !used[r] {
			return string(r)
		}
	}
}

// Any reports whether one of the patterns matches a name.
func Any(patterns []string, name string) bool {
	for _, p := range patterns {
		if Match(p, name) {
			return true
		}
	}
	return false
}

// CoversAll reports whether one of the patterns matches every name that begins with a
// prefix. It may miss such a pattern if that does not end in *.
func CoversAll(patterns []string, prefix string) bool {
	for _, p := range patterns {
		begin, all := strings.CutSuffix(p, "*")
		if !all || strings.HasSuffix(begin, `\`) {
			continue
		}
		for i := range len(prefix) + 1 {
			if Match(begin, prefix[:i]) {
				return true
			}
		}
	}
	return false
}
