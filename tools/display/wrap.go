package display

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Width returns how many columns of a terminal text takes. Text must be a single line.
func Width(text string) int { return uniseg.StringWidth(text) }

// Pad appends spaces to text, up to n columns.
func Pad(text string, n int) string { return text + strings.Repeat(" ", max(0, n-Width(text))) }

// Wrap breaks text into lines of at most n columns, at spaces if possible. Text must be a single
// line; white space becomes single spaces. The result has at least one line.
func Wrap(text string, n int) []string {
	n = max(n, 1)
	var lines []string
	line, used := "", 0
	end := func() {
		lines = append(lines, line)
		line, used = "", 0
	}
	for _, word := range strings.Fields(text) {
		w := Width(word)
		if used > 0 && used+1+w <= n {
			line, used = line+" "+word, used+1+w
			continue
		}
		if used > 0 {
			end()
		}
		for w > n {
			first, rest := splitWord(word, n)
			lines = append(lines, first)
			word, w = rest, Width(rest)
		}
		line, used = word, w
	}
	if used > 0 || lines == nil {
		end()
	}
	return lines
}

// splitWord splits a word that is longer than n columns, after punctuation in the second half of
// the line if possible. A displayed character is split only if it alone takes more than n columns.
func splitWord(word string, n int) (first, rest string) {
	used, at, good := 0, 0, 0
	for g := uniseg.NewGraphemes(word); g.Next(); {
		used += g.Width()
		_, to := g.Positions()
		if used > n && at > 0 {
			break
		}
		if used > n {
			at = splitCharacter(word[:to], n)
			break
		}
		at = to
		if used > n/2 && strings.ContainsAny(g.Str(), "/.,_-:;=&?") {
			good = to
		}
	}
	if good > 0 {
		at = good
	}
	return word[:at], word[at:]
}

// splitCharacter returns how many bytes of a character wider than n columns fit: at least one code
// point. A text can add any number of marks with columns to a character.
func splitCharacter(character string, n int) (bytes int) {
	used := 0
	for i, r := range character {
		if used += Width(string(r)); used > n && i > 0 {
			break
		}
		bytes = i + utf8.RuneLen(r)
	}
	return bytes
}

// Cut returns text of at most n columns unchanged, and otherwise the beginning and "…". Text must
// be a single line of valid UTF-8. With n < 1 it returns "".
func Cut(text string, n int) string {
	if n < 1 {
		return ""
	}
	if Width(text) <= n {
		return text
	}
	used, at := 1, 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used > n {
			break
		}
		_, at = g.Positions()
	}
	return text[:at] + "…"
}

// Paragraphs fits text to n columns: it joins the lines of each paragraph and breaks them again.
// Lines with leading white space are unchanged.
func Paragraphs(text string, n int) string {
	var out, paragraph []string
	end := func() {
		if paragraph != nil {
			out = append(out, Wrap(strings.Join(paragraph, " "), n)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}
