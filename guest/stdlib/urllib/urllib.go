// Package urllib is Python's module urllib.parse. Begin with [Module].
package urllib

import (
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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

// pairsOf returns the pairs of a mapping or of a sequence.
func pairsOf(c *stdlib.Call, v starlark.Value) ([][]starlark.Value, error) {
	var out [][]starlark.Value
	switch v := v.(type) {
	case stdlib.DictLike:
		for _, kv := range v.Underlying().Items() {
			out = append(out, kv)
		}
		return out, nil
	case starlark.IterableMapping:
		for _, kv := range v.Items() {
			out = append(out, kv)
		}
		return out, nil
	case starlark.String:
		if v != "" {
			return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
		}
	}
	all, err := c.Elements(v)
	if err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
	}
	for _, pair := range all {
		kv, err := c.Elements(pair)
		if err != nil || len(kv) != 2 {
			return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
		}
		out = append(out, kv)
	}
	return out, nil
}

func urlEncode(c *stdlib.Call) (starlark.Value, error) {
	var query, encoding, errors, via starlark.Value
	doseq, safe := false, ""
	if err := c.Unpack("query", &query, "doseq?", &doseq, "safe?", &safe, "encoding??", &encoding, "errors??", &errors, "quote_via?", &via); err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	pairs, err := pairsOf(c, query)
	if err != nil {
		return nil, err
	}
	escape := func(v starlark.Value) (string, error) {
		s, err := content(c, v)
		if err != nil {
			s = c.Env().Str(v)
		}
		if via == nil {
			return quote(s, safe, true), nil
		}
		out, err := c.Call(via, starlark.String(s), starlark.String(safe))
		if err != nil {
			return "", err
		}
		return c.Env().Str(out), nil
	}
	out := c.Env().NewOutput()
	for _, kv := range pairs {
		key, err := escape(kv[0])
		if err != nil {
			return nil, err
		}
		values := []starlark.Value{kv[1]}
		if _, ok := kv[1].(starlark.String); doseq && !ok {
			if starlark.Len(kv[1]) >= 0 && kv[1].Type() != "bytes" {
				if values, err = c.Elements(kv[1]); err != nil {
					return nil, err
				}
			}
		}
		for _, v := range values {
			text, err := escape(v)
			if err != nil {
				return nil, err
			}
			if out.Len() > 0 {
				key := "&" + key
				err = out.WriteString(key + "=" + text)
			} else {
				err = out.WriteString(key + "=" + text)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return starlark.String(out.String()), nil
}

// parseQuery is parse_qs and parse_qsl.
func parseQuery(c *stdlib.Call) (starlark.Value, error) {
	var v, encoding, errors, most starlark.Value
	blank, strict, separator := false, false, "&"
	err := c.Unpack("qs", &v, "keep_blank_values?", &blank, "strict_parsing?", &strict, "encoding??", &encoding,
		"errors??", &errors, "max_num_fields??", &most, "separator?", &separator)
	if err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	qs, err := content(c, v)
	if err != nil {
		return nil, err
	}
	if separator == "" {
		return nil, stdlib.Errorf(stdlib.ValueError, "Separator must be of type string or bytes.")
	}
	if most != nil {
		n, err := stdlib.Int(most)
		if err != nil {
			return nil, err
		}
		if strings.Count(qs, separator)+1 > n {
			return nil, stdlib.Errorf(stdlib.ValueError, "Max number of fields exceeded")
		}
	}
	list := c.Env().NewValues()
	for _, part := range strings.Split(qs, separator) {
		if part == "" && (!strict || qs == "") {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok && strict {
			return nil, stdlib.Errorf(stdlib.ValueError, "bad query field: %s", c.Env().Repr(starlark.String(part)))
		}
		if !ok && !blank || value == "" && !blank {
			continue
		}
		decode := func(s string) starlark.Value { return starlark.String(unquoteText(strings.ReplaceAll(s, "+", " "))) }
		if err := list.Add(starlark.Tuple{decode(name), decode(value)}); err != nil {
			return nil, err
		}
	}
	if c.Name == "parse_qsl" {
		return list.Value(), nil
	}
	d := c.Env().NewDict(len(list.List))
	for _, v := range list.List {
		kv := v.(starlark.Tuple)
		before, found, err := d.Underlying().Get(kv[0])
		if err != nil {
			return nil, err
		}
		if found {
			err = before.(*starlark.List).Append(kv[1])
		} else {
			err = d.SetKey(kv[0], starlark.NewList([]starlark.Value{kv[1]}))
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}
