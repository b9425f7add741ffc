package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// mask stands for a secret, whatever its length.
const mask = "****"

// Masker replaces secrets in texts by ****. The zero value, and a nil *Masker,
// know no secrets. All methods may be called from several goroutines at once.
//
// A secret is found as it is, and as it is written within a JSON string, a Go
// string literal or an address; not in base64 or cut into pieces.
type Masker struct {
	secrets atomic.Pointer[[]string]
}

// NewMasker returns a Masker for the secrets of c.
func (c *Config) NewMasker() *Masker {
	m := &Masker{}
	m.Add(c.Secrets...)
	return m
}

// Add makes more secrets known, for instance those of a configuration that was
// read again: old ones can still turn up. Those shorter than [MinSecret] are
// ignored.
func (m *Masker) Add(secrets ...string) {
	var forms []string
	for _, s := range secrets {
		forms = append(forms, writtenForms(s)...)
	}
	for {
		old := m.secrets.Load()
		all := forms
		if old != nil {
			all = slices.Concat(*old, forms)
		}
		all = sortSecrets(all)
		if m.secrets.CompareAndSwap(old, &all) {
			return
		}
	}
}

// writtenForms is a secret as it is and as it looks within other texts.
func writtenForms(s string) []string {
	query := url.QueryEscape(s)
	forms := []string{s, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(s)}
	if plain, err := url.PathUnescape(s); err == nil { // a password out of an address
		forms = append(forms, plain)
	}
	q := strconv.Quote(s)
	forms = append(forms, q[1:len(q)-1])
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		if err := enc.Encode(s); err == nil { // a string always encodes
			q := strings.TrimSuffix(b.String(), "\n")
			forms = append(forms, q[1:len(q)-1])
		}
	}
	return forms
}

// Mask returns s with every secret replaced. Secrets that overlap are replaced
// as one.
func (m *Masker) Mask(s string) string {
	var spans []span
	for _, secret := range m.known() {
		for from := 0; ; {
			at := strings.Index(s[from:], secret)
			if at < 0 {
				break
			}
			from += at
			spans = append(spans, span{from, from + len(secret)})
			from++
		}
	}
	return maskSpans(s, spans)
}

// known lists the secrets.
func (m *Masker) known() []string {
	if m == nil {
		return nil
	}
	if list := m.secrets.Load(); list != nil {
		return *list
	}
	return nil
}

// maskSpans replaces parts of s; those that touch or overlap become one.
func maskSpans(s string, spans []span) string {
	if len(spans) == 0 {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	end := 0
	for i := 0; i < len(spans); {
		merged := spans[i]
		for i++; i < len(spans) && spans[i].from <= merged.to; i++ {
			merged.to = max(merged.to, spans[i].to)
		}
		b.WriteString(s[end:merged.from])
		b.WriteString(mask)
		end = merged.to
	}
	b.WriteString(s[end:])
	return b.String()
}
