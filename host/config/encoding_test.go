package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// encodings are the ways to write a text that masking resolves, according to
// docs/configuration.md, Secrets. Each makes random choices, as different programs would.
var encodings = map[string]func(r *rand.Rand, s string) string{
	"as it is":    func(_ *rand.Rand, s string) string { return s },
	"JSON":        jsonEncoding,
	"Go":          func(_ *rand.Rand, s string) string { return inner(strconv.Quote(s)) },
	"Go, ASCII":   func(_ *rand.Rand, s string) string { return inner(strconv.QuoteToASCII(s)) },
	"address":     percentEncoding,
	"query":       queryEncoding,
	"QueryEscape": func(_ *rand.Rand, s string) string { return url.QueryEscape(s) },
	"PathEscape":  func(_ *rand.Rand, s string) string { return url.PathEscape(s) },
	"hex":         func(_ *rand.Rand, s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":         func(_ *rand.Rand, s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":      base64Encoding(base64.StdEncoding),
	"base64url":   base64Encoding(base64.RawURLEncoding),
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// jsonEncoding writes a JSON string, each character in one of the possible ways.
func jsonEncoding(r *rand.Rand, s string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\n': `\n`, '\t': `\t`, '\r': `\r`, '\b': `\b`, '\f': `\f`}
	var b strings.Builder
	for _, c := range s {
		must := c < ' ' || c == '"' || c == '\\'
		switch way := r.IntN(3); {
		case short[c] != "" && (way == 0 || must && way == 1):
			b.WriteString(short[c])
		case way == 2 || must:
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
			}
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// percentEncoding writes some bytes as %XX, among them those that must be.
func percentEncoding(r *rand.Rand, s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(`%+&#?"<>`, c) >= 0 || r.IntN(2) == 0 {
			fmt.Fprintf(&b, []string{"%%%02x", "%%%02X"}[r.IntN(2)], c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// queryEncoding is percentEncoding with spaces as +, as in forms.
func queryEncoding(r *rand.Rand, s string) string {
	words := strings.Split(s, " ")
	for i, w := range words {
		words[i] = percentEncoding(r, w)
	}
	return strings.Join(words, "+")
}

// base64Encoding encodes a text within a longer one.
func base64Encoding(e *base64.Encoding) func(r *rand.Rand, s string) string {
	return func(r *rand.Rand, s string) string {
		return e.EncodeToString([]byte("~~~~~~"[:r.IntN(4)] + s + "~~~~~~"[:r.IntN(4)]))
	}
}

// secretOf returns a secret of eight or more bytes with characters of all kinds.
func secretOf(r *rand.Rand) string {
	kinds := []rune("abcXYZ0189  %+/=&?#\"'\\<>~_-.,:;@!$\n\téü語ß😀\u2028")
	var b strings.Builder
	b.WriteString("k9")
	for b.Len() < 8+r.IntN(30) {
		b.WriteRune(kinds[r.IntN(len(kinds))])
	}
	return b.String() + "Zq"
}

// TestEveryEncodingIsMasked writes secrets in every way in which the documentation
// promises to find them, and in two ways, one within the other.
func TestEveryEncodingIsMasked(t *testing.T) {
	layers := map[string]func(r *rand.Rand, s string) string{
		"": func(_ *rand.Rand, s string) string { return s }, " in JSON": jsonEncoding, " in an address": percentEncoding,
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		secret := secretOf(r)
		var m Masker
		m.Add(secret)
		redactor := NewRedactor(&m, nil)
		for name, encode := range encodings {
			for in, layer := range layers {
				text := layer(r, encode(r, secret))
				redacted, _ := redactor.Text("before " + text + " after")
				for who, got := range map[string]string{"Mask": m.Mask("before " + text + " after"), "Text": redacted} {
					rest, ok := strings.CutPrefix(got, "before ")
					rest, ends := strings.CutSuffix(rest, " after")
					// When a text is encoded as a whole, a little of what was beside the
					// secret is left.
					left := 0
					if strings.HasPrefix(name, "base64") {
						left = 2 * 6 * 8
					}
					if !ok || !ends || !strings.Contains(rest, mask) || len(rest) > len(mask)+left {
						t.Errorf("seed %d: %s%s: %s of %q, written %q, is %q", seed, name, in, who, secret, text, got)
					}
				}
			}
		}
	}
}
