package parse

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"
)

// scanString scans a literal after its prefix of n letters.
func (sc *scanner) scanString(val *tokenValue, prefix int) syntax.Token {
	if prefix > 0 && strings.ContainsAny(sc.start[:prefix], "fF") {
		length, _, failure := ScanFString(sc.start, 0)
		if failure != nil {
			sc.readBytes(min(max(failure.At-prefix, 0), len(sc.rest)))
			at := val.pos
			if failure.At > 0 {
				at = sc.pos
			}
			sc.refuse(at, "%s", failure.Message)
		}
		sc.readBytes(length - prefix)
		sc.endToken(val)
		return fstringToken
	}
	length, quotes, closed := stringEnd(sc.rest)
	if !closed {
		what := "EOF"
		if length < len(sc.rest) {
			what = "newline"
		}
		sc.readBytes(length)
		sc.error(val.pos, "unexpected %s in string", what)
	}
	sc.readBytes(length)
	sc.endToken(val)
	letters := strings.ToLower(val.raw[:prefix])
	body := val.raw[prefix+quotes : len(val.raw)-quotes]
	isBytes := strings.Contains(letters, "b")
	text, message := unquote(body, strings.Contains(letters, "r"), isBytes)
	if message != "" {
		sc.error(val.pos, "%s", message)
	}
	val.text = text
	if isBytes {
		return syntax.BYTES
	}
	return syntax.STRING
}

// unquote decodes the text between quotes. As in Python, a backslash before a character without an
// escape stays.
func unquote(body string, raw, isBytes bool) (text, message string) {
	if strings.ContainsRune(body, '\r') {
		body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	}
	if raw || !strings.Contains(body, `\`) {
		return body, ""
	}
	var b strings.Builder
	for body != "" {
		i := strings.IndexByte(body, '\\')
		if i < 0 || i+1 == len(body) {
			b.WriteString(body)
			break
		}
		b.WriteString(body[:i])
		body = body[i+1:]
		n, message := unescape(&b, body, isBytes)
		if message != "" {
			return "", message
		}
		body = body[n:]
	}
	return b.String(), ""
}

var simpleEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\', '\'': '\'', '"': '"',
}

// unescape decodes the escape after a backslash, and returns its length in bytes.
func unescape(b *strings.Builder, s string, isBytes bool) (n int, message string) {
	c := s[0]
	if plain, ok := simpleEscapes[c]; ok {
		b.WriteByte(plain)
		return 1, ""
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case c == '\n':
		return 1, ""
	case c >= '0' && c <= '7':
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 16)
		write(b, rune(v), isBytes)
		return n, ""
	case c == 'N' && !isBytes && strings.HasPrefix(s, "N{"):
		return 0, `\N{...} is not available: write the character itself, or \uXXXX`
	case digits == 0 || isBytes && c != 'x':
		b.WriteByte('\\')
		return 0, ""
	}
	end := min(1+digits, len(s))
	v, err := strconv.ParseUint(s[1:end], 16, 32)
	switch {
	case err != nil || end != 1+digits:
		return 0, `truncated escape sequence \` + s[:end] + ` (it has ` + strconv.Itoa(digits) + " hexadecimal digits)"
	case c != 'x' && !utf8.ValidRune(rune(v)):
		return 0, `invalid Unicode code point \` + s[:end]
	}
	write(b, rune(v), isBytes)
	return end, ""
}

func write(b *strings.Builder, r rune, isBytes bool) {
	if isBytes {
		b.WriteByte(byte(r))
		return
	}
	b.WriteRune(r)
}
