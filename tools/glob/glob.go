// Package glob matches names with patterns: the patterns of expose and hide, of policy rules and of
// permissions.
//
// Patterns are as in [path.Match], but slashes are ordinary characters: * stands for any text, ?
// for a character, [a-z] for a character of a range, and \ before a character for the character. A
// pattern has to match the whole name.
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

// substitute returns a character absent from two texts. The character stands for slashes, which
// [path.Match] treats differently.
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
	for r := '\ue000'; ; r++ { // no character with a meaning in a pattern
		if !used[r] {
			return string(r)
		}
	}
}

// Any reports whether any of the patterns matches a name.
func Any(patterns []string, name string) bool {
	for _, p := range patterns {
		if Match(p, name) {
			return true
		}
	}
	return false
}

// CoversAll reports whether any of the patterns matches every name with a prefix. Patterns without
// a final * may give a false negative.
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
