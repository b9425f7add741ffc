// Package urllib is Python's module urllib.parse. Begin with [Module].
package urllib

import (
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module urllib.parse.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "urllib.parse", Members: stdlib.Funcs(map[string]stdlib.Func{
		"quote": quoteFunc, "quote_plus": quoteFunc, "unquote": unquoteFunc, "unquote_plus": unquoteFunc, "unquote_to_bytes": unquoteFunc,
		"urlencode": urlEncode, "parse_qs": parseQuery, "parse_qsl": parseQuery,
		"urlsplit": splitFunc, "urlparse": splitFunc, "urlunsplit": unsplitFunc, "urlunparse": unsplitFunc,
		"urljoin": joinFunc, "urldefrag": defragFunc,
	})}
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"

// quote escapes all bytes except unreserved bytes and the bytes of safe.
func quote(s, safe string, plus bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case strings.IndexByte(unreserved, c) >= 0 || c < utf8.RuneSelf && strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		case plus && c == ' ':
			b.WriteByte('+')
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// content returns the content of text or bytes.
func content(c *stdlib.Call, v starlark.Value) (string, error) {
	if s, ok := starlark.AsString(v); ok {
		return s, nil
	}
	b, ok := v.(starlark.Bytes)
	if !ok {
		return "", stdlib.Errorf(stdlib.TypeError, "%s() expected bytes, not '%s'", c.Name, stdlib.TypeName(v))
	}
	return string(b), nil
}

func checkEncoding(encoding, errors starlark.Value) error {
	if s, ok := starlark.AsString(encoding); encoding != nil && (!ok || strings.ReplaceAll(strings.ToLower(s), "-", "") != "utf8") {
		return stdlib.Errorf(stdlib.LookupError, "unknown encoding: only utf-8 is supported")
	}
	return nil
}

func quoteFunc(c *stdlib.Call) (starlark.Value, error) {
	var v, safe, encoding, errors starlark.Value
	if err := c.Unpack("string", &v, "safe?", &safe, "encoding??", &encoding, "errors??", &errors); err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	s, err := content(c, v)
	if err != nil {
		return nil, err
	}
	allowed, plus := "/", c.Name == "quote_plus"
	if plus {
		allowed = ""
	}
	if safe != nil {
		if allowed, err = content(c, safe); err != nil {
			return nil, err
		}
	}
	return starlark.String(quote(s, allowed, plus)), nil
}

// unquote replaces %xx by bytes; other text is unchanged.
func unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, ok := hexDigit(s[i+1])
			low, ok2 := hexDigit(s[i+2])
			if ok && ok2 {
				b.WriteByte(high<<4 | low)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// unquoteText is unquote, with U+FFFD for invalid UTF-8.
func unquoteText(s string) string { return toValid(unquote(s)) }

// toValid replaces as Python does: each broken sequence by a single U+FFFD.
func toValid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			n = brokenLength(s[i:])
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// brokenLength returns the length of the start of a truncated sequence.
func brokenLength(s string) int {
	want, low, high := 0, byte(0x80), byte(0xbf)
	switch c := s[0]; {
	case 0xc2 <= c && c <= 0xdf:
		want = 1
	case 0xe0 <= c && c <= 0xef:
		want = 2
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case 0xf0 <= c && c <= 0xf4:
		want = 3
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for ; n <= want && n < len(s) && low <= s[n] && s[n] <= high; n++ {
		low, high = 0x80, 0xbf
	}
	return n
}

func unquoteFunc(c *stdlib.Call) (starlark.Value, error) {
	var v, encoding, errors starlark.Value
	if err := c.Unpack("string", &v, "encoding??", &encoding, "errors??", &errors); err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	s, err := content(c, v)
	if err != nil {
		return nil, err
	}
	switch c.Name {
	case "unquote_to_bytes":
		return starlark.Bytes(unquote(s)), nil
	case "unquote_plus":
		s = strings.ReplaceAll(s, "+", " ")
	}
	return starlark.String(unquoteText(s)), nil
}
