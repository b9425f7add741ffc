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

// slash stands for a slash in patterns and names, because [path.Match] treats slashes
// differently.
const slash = "\x01"

// Valid reports whether a pattern is well formed and not empty.
func Valid(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != "" && !strings.Contains(pattern, slash)
}

// Match reports whether a pattern matches a name. A malformed pattern matches nothing.
func Match(pattern, name string) bool { return match(pattern, flat(name)) }

// Any reports whether one of the patterns matches a name.
func Any(patterns []string, name string) bool {
	name = flat(name)
	for _, p := range patterns {
		if match(p, name) {
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

// flat returns a name in which slashes are not special. A name with the character that
// stands for them would match like one with slashes, and so matches like one with a
// character that no pattern has.
func flat(name string) string {
	if strings.Contains(name, slash) {
		name = strings.ReplaceAll(name, slash, "\x02")
	}
	return strings.ReplaceAll(name, "/", slash)
}

func match(pattern, flat string) bool {
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash), flat)
	return ok
}
