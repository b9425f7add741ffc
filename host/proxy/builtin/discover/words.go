package discover

import (
	"strings"
	"unicode"
)

// words splits text into at most most lower-case words, at everything except letters and digits,
// and within camelCase ("listOpenPRs" is list, open, prs). In writing systems without spaces
// between words, each character is a word.
func words(text string, most int) []string {
	var found []string
	var word []rune
	end := func() {
		if len(word) > 0 && len(found) < most {
			found = append(found, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(text)
	for i, r := range runes {
		if len(found) >= most {
			break
		}
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			word = append(word, r)
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && startsHump(runes, i):
			end()
		}
		if len(word) < maxWord {
			word = append(word, r)
		}
	}
	end()
	return found
}

// maxWord is the number of used letters of a word.
const maxWord = 40

// startsHump reports whether a word starts at the upper-case letter runes[i], which follows
// a letter or digit: after a lower-case letter, or as the last of several capitals if a
// word follows, not just a plural s.
func startsHump(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	lower := func(j int) bool { return j < len(runes) && unicode.IsLower(runes[j]) }
	return lower(i+1) && (runes[i+1] != 's' || lower(i+2))
}

// stem removes the endings of an English word, so "searches" and "searching" become "search". The
// result need not be a word.
func stem(w string) string {
	if strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return w
	}
	w = singular(w)
	switch rest := ""; {
	case strings.HasSuffix(w, "ing") && len(w) > 5:
		rest = w[:len(w)-3]
		w = verb(w, rest)
	case strings.HasSuffix(w, "ed") && len(w) > 4 && w[len(w)-3] != 'e':
		rest = w[:len(w)-2]
		w = verb(w, rest)
	}
	if len(w) > 4 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	return w
}

func singular(w string) string {
	n := len(w)
	switch {
	case n < 3 || w[n-1] != 's' || strings.HasSuffix(w, "ss") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "xes")):
		return w[:n-2]
	}
	return w[:n-1]
}

// verb returns rest, which is w without the ending, if rest can be a verb. A doubled consonant
// becomes a single one ("running").
func verb(w, rest string) string {
	n := len(rest)
	switch {
	case !strings.ContainsAny(rest, "aeiouy"):
		return w
	case n > 3 && rest[n-1] == rest[n-2] && !strings.ContainsRune("lsz", rune(rest[n-1])):
		return rest[:n-1]
	}
	return rest
}

// stopWords say nothing about the purpose of a tool.
var stopWords = setOf("a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i",
	"in", "into", "is", "it", "its", "me", "my", "need", "of", "on", "or", "please", "that", "the", "their", "this",
	"to", "tool", "tools", "use", "using", "want", "what", "which", "with", "you", "your")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}
