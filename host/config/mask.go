package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// mask stands for a secret, whatever its length.
const mask = "****"

// Masker replaces secrets in texts by ****. The zero value, and a nil *Masker,
// know no secrets. All methods may be called from several goroutines at once.
//
// A secret is found as it is, and as it is written in a JSON string, a Go string literal
// or a URL, whatever characters of it are escaped there, also if these are nested up to
// maxEscapeDepth times. A secret of at least minCoded bytes is also found in base64 or
// hexadecimal digits. A secret that is split into pieces is not found.
type Masker struct {
	secrets atomic.Pointer[finder]
	fetched *fetched // the configuration's; nil for none
}

// NewMasker returns a Masker for the secrets of c, and for those that it gets with Learn,
// also later.
func (c *Config) NewMasker() *Masker {
	m := &Masker{fetched: c.fetched}
	m.Add(c.Secrets...)
	return m
}

// Add adds secrets, for instance those of a reloaded configuration. The old ones are kept,
// because they may still occur. Secrets shorter than [MinSecret] are ignored.
func (m *Masker) Add(secrets ...string) {
	var forms []string
	for _, s := range secrets {
		forms = append(forms, writtenForms(s)...)
	}
	for {
		old := m.secrets.Load()
		all := forms
		if old != nil {
			all = slices.Concat(old.forms, forms)
		}
		if m.secrets.CompareAndSwap(old, newFinder(sortSecrets(all))) {
			return
		}
	}
}

// writtenForms returns the forms in which a secret can be written in texts.
func writtenForms(s string) []string {
	query := url.QueryEscape(s)
	forms := []string{s, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(s), strings.ReplaceAll(s, " ", "+")}
	if plain, err := url.PathUnescape(s); err == nil { // the password of a URL
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
	for _, plain := range []string{s, strings.TrimSpace(s)} {
		forms = append(forms, codedForms(plain)...)
	}
	return append(forms, secretMembers(s)...)
}

// secretMembers returns the secrets in one that is a JSON object, such as the key file of a
// service account, because its members can be written without the rest.
func secretMembers(s string) []string {
	members := map[string]any{}
	if !strings.HasPrefix(strings.TrimSpace(s), "{") || jsonvalue.Unmarshal([]byte(s), &members) != nil {
		return nil
	}
	var forms []string
	for name, value := range members {
		switch v := value.(type) {
		case string:
			if looksSecret(name) && len(v) >= MinSecret {
				forms = append(forms, writtenForms(v)...)
			}
		case map[string]any:
			if inner, err := json.Marshal(v); err == nil {
				forms = append(forms, secretMembers(string(inner))...)
			}
		}
	}
	return forms
}

// minCoded is the smallest length in bytes of a secret that is looked for in base64 and
// hexadecimal digits. Shorter ones would match ordinary text.
const minCoded = 6

// codedForms returns the forms of a secret within encoded data. In base64 there is one for
// each of three offsets, without the characters at the ends, which contain bits of the
// neighbouring bytes.
func codedForms(s string) []string {
	if len(s) < minCoded {
		return nil
	}
	forms := []string{hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			coded := encoding.EncodeToString(append(make([]byte, offset), s...))
			forms = append(forms, coded[(offset*8+5)/6:(offset+len(s))*8/6])
		}
	}
	return forms
}

// Mask returns s with every secret replaced. Overlapping secrets are replaced together.
func (m *Masker) Mask(s string) string {
	if m.knowsNone() {
		return s
	}
	return maskSpans(s, findEscaped(s, maxEscapeDepth, m.find))
}

// find returns where the secrets are in s, without resolving escapes.
func (m *Masker) find(s string) []span {
	if m == nil {
		return nil
	}
	spans := m.secrets.Load().find(s)
	if m.fetched != nil {
		spans = append(spans, m.fetched.finder.Load().find(s)...)
	}
	return spans
}

func (m *Masker) knowsNone() bool {
	return m == nil || m.secrets.Load().empty() && (m.fetched == nil || m.fetched.finder.Load().empty())
}

// maskSpans replaces parts of s. Parts that touch or overlap are replaced together.
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
