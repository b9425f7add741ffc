package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// insideString returns the byte offset, in a string as TOML writes it, of a code point of
// its value. An offset beyond the end is that of the closing quotes.
func insideString(written string, offset int) int {
	quotes := 1
	if strings.HasPrefix(written, `"""`) || strings.HasPrefix(written, "'''") {
		quotes = 3
	}
	at := quotes
	if quotes == 3 { // a line break right after them is not part of the value
		if strings.HasPrefix(written[at:], "\r\n") {
			at += 2
		} else if strings.HasPrefix(written[at:], "\n") {
			at++
		}
	}
	end := max(at, len(written)-quotes)
	for at < end {
		size, points := codePoint(written[at:end], written[0] == '"')
		if offset < points {
			break
		}
		at, offset = at+size, offset-points
	}
	return at
}

// codePoint returns how many bytes the beginning of a string takes as it is written, and
// how many code points of its value that is: one, or none for an escaped line break.
func codePoint(written string, escapes bool) (size, points int) {
	if !escapes || written[0] != '\\' || len(written) < 2 {
		_, size = utf8.DecodeRuneInString(written)
		return size, 1
	}
	switch written[1] {
	case 'u', 'U', 'x':
		size = map[byte]int{'x': 4, 'u': 6, 'U': 10}[written[1]]
		if size > len(written) {
			return len(written), 1
		}
		if _, err := strconv.ParseUint(written[2:size], 16, 32); err != nil {
			return 2, 1
		}
		return size, 1
	case ' ', '\t', '\r', '\n':
		rest := strings.TrimLeft(written[1:], " \t\r\n")
		return len(written) - len(rest), 0
	}
	return 2, 1
}
