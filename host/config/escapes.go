package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxEscapeDepth is how many levels of nested escapes are resolved.
const maxEscapeDepth = 4

// findEscaped returns what find finds in s, and in s with its escapes resolved, up to the
// given number of levels. All spans are positions in s.
func findEscaped(s string, depth int, find func(string) []span) []span {
	spans := find(s)
	if depth == 0 {
		return spans
	}
	for _, e := range escapes {
		if strings.IndexByte(s, e.lead) < 0 {
			continue
		}
		plain := unescape(s, e, nil)
		if len(plain) == len(s) {
			continue
		}
		within := findEscaped(plain, depth-1, find)
		if len(within) == 0 {
			continue
		}
		var from []int32 // the position in s of each byte of plain
		unescape(s, e, &from)
		for _, w := range within {
			spans = append(spans, span{int(from[w.from]), int(from[w.to])})
		}
	}
	return spans
}

// escape is a way to write a character. read reads an escape at the beginning of s, which
// begins with lead. The first n bytes stand for the rune r, or for the byte r if bare is
// set. n is 0 if s does not begin with an escape.
type escape struct {
	lead byte
	read func(s string) (r rune, bare bool, n int)
}

var escapes = []escape{{'\\', readBackslash}, {'%', readPercent}}

func readPercent(s string) (rune, bool, int) {
	if len(s) < 3 {
		return 0, false, 0
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return 0, false, 0
	}
	return rune(n), true, 3
}

// readBackslash reads the escapes of JSON, Go, JavaScript and Python.
func readBackslash(s string) (rune, bool, int) {
	if len(s) < 2 {
		return 0, false, 0
	}
	digits := 0
	switch c := s[1]; c {
	case 'n':
		return '\n', false, 2
	case 't':
		return '\t', false, 2
	case 'r':
		return '\r', false, 2
	case 'b':
		return '\b', false, 2
	case 'f':
		return '\f', false, 2
	case 'a':
		return '\a', false, 2
	case 'v':
		return '\v', false, 2
	case '"', '\\', '/', '\'':
		return rune(c), false, 2
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return 0, false, 0
	}
	if len(s) < 2+digits {
		return 0, false, 0
	}
	n, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil {
		return 0, false, 0
	}
	if n>>10 == 0xD800>>10 && digits == 4 { // the first half of a surrogate pair
		if low, _, m := readLow(s[6:]); m > 0 {
			return rune((n-0xD800)<<10 + (low - 0xDC00) + 0x10000), false, 6 + m
		}
	}
	return rune(n), digits == 2, 2 + digits
}

func readLow(s string) (n uint64, bare bool, size int) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false, 0
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	if err != nil || n>>10 != 0xDC00>>10 {
		return 0, false, 0
	}
	return n, false, 6
}

// unescape returns s with its escapes resolved. If from is not nil, the position in s of
// each byte of the result, and of its end, is appended to it.
func unescape(s string, e escape, from *[]int32) string {
	b := make([]byte, 0, len(s))
	note := func(at int) {
		if from != nil {
			for len(*from) < len(b) {
				*from = append(*from, int32(at)) // no message has 2 GB
			}
		}
	}
	for i := 0; i < len(s); {
		next := strings.IndexByte(s[i:], e.lead)
		if next < 0 {
			next = len(s) - i
		}
		for end := i + next; i < end; i++ {
			b = append(b, s[i])
			note(i)
		}
		if i == len(s) {
			break
		}
		r, bare, n := e.read(s[i:])
		switch {
		case n == 0:
			b, n = append(b, s[i]), 1
		case bare:
			b = append(b, byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
		note(i)
		i += n
	}
	if from != nil {
		*from = append(*from, int32(len(s)))
	}
	return string(b)
}
