package config

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// escaped returns s with each byte as \u00XX.
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\u%04x`, s[i])
	}
	return b.String()
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func redactor(secrets []string, patterns ...string) *Redactor {
	var m Masker
	m.Add(secrets...)
	var all []*regexp.Regexp
	for _, p := range patterns {
		all = append(all, regexp.MustCompile(p))
	}
	return NewRedactor(&m, all)
}

func TestRedactText(t *testing.T) {
	const odd = `pl4nted"s3cret\with<odd>%41chars`
	for name, text := range map[string]string{
		"as it is":          odd,
		"in JSON":           quote(odd),
		"in JSON in JSON":   quote(quote(odd)),
		"thrice":            quote(quote(quote(odd))),
		"with \\u":          escaped(odd),
		"\\u in JSON":       quote(escaped(odd)),
		"percent":           url.QueryEscape(odd),
		"percent twice":     url.QueryEscape(url.QueryEscape(odd)),
		"percent, in JSON":  quote(url.QueryEscape(odd + `"`)),
		"JSON, in percent":  url.QueryEscape(quote(odd)),
		"small percent":     strings.ToLower(url.QueryEscape(odd)),
		"base64":            base64.StdEncoding.EncodeToString([]byte(odd)),
		"base64, one off":   base64.StdEncoding.EncodeToString([]byte("u" + odd + ":x")),
		"base64, two off":   base64.URLEncoding.EncodeToString([]byte("u:" + odd + ":x")),
		"base64 in JSON":    quote(`"` + base64.StdEncoding.EncodeToString([]byte(odd))),
		"hexadecimal":       hex.EncodeToString([]byte(odd)),
		"Go":                fmt.Sprintf("%q", odd),
		"next to a %":       "100%" + odd + "%",
		"behind a lone \\u": `\u00` + odd,
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := redactor([]string{odd}).Text("before " + text + " after")
			rest := strings.NewReplacer(`\`, "", `"`, "", "%25", "", "%5c", "", "%22", "", "%", "", "=", "").Replace(got)
			if !changed || len(rest) > len("before **** after")+12 || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, mask) {
				t.Errorf("%s becomes %s", text, got)
			}
		})
	}
	if got, changed := redactor([]string{odd}).Text("a plain text, 100% \\u0041"); changed || got != "a plain text, 100% \\u0041" {
		t.Errorf("a text without a secret becomes %q", got)
	}
	if got, changed := redactor(nil, `ghp_\w+`, `^$`).Text("token ghp_abc, ghp_def."); !changed || got != "token ****, ****." {
		t.Errorf("patterns: %q", got)
	}
}

func TestRedactJSON(t *testing.T) {
	const odd = `s3"c\ret`
	account := `{"type":"service_account","private_key":"-----BEGIN-----\nabcdefghijkl\n-----END-----\n","client_email":"robot@example.com"}`
	tests := map[string]struct {
		secrets, patterns []string
		in, want          string
	}{
		"nothing":         {[]string{odd}, nil, `{ "a" : "b\u0041", "n": 1.50 }`, `{ "a" : "b\u0041", "n": 1.50 }`},
		"no secrets":      {nil, nil, `{"a":"b"}`, `{"a":"b"}`},
		"value":           {[]string{odd}, nil, `{"a": "x` + odd[:2] + `\"c\\ret!", "b":[1]}`, `{"a": "x****!", "b":[1]}`},
		"name":            {[]string{odd}, nil, `{` + quote(odd) + ` : 1, ` + quote(odd) + `:2}`, `{"****" : 1, "****2":2}`},
		"escaped":         {[]string{odd}, nil, `["` + escaped(odd) + `"]`, `["****"]`},
		"JSON in it":      {[]string{odd}, nil, `["` + strings.Trim(quote(`{"a":`+quote(odd)+`}`), `"`) + `"]`, `["{\"a\":\"****\"}"]`},
		"number":          {[]string{"12345678"}, nil, `{"pin":12345678,"a":[-112345678.5e3],"b":1234567}`, `{"pin":"****","a":["****"],"b":1234567}`},
		"number in JSON":  {[]string{"12345678"}, nil, `["{\"pin\":12345678}"]`, `["{\"pin\":****}"]`},
		"alone":           {[]string{odd}, nil, quote(odd), `"****"`},
		"surrogates":      {[]string{"pass😀word"}, nil, `["\u0070ass\ud83d\ude00word"]`, `["****"]`},
		"line break":      {[]string{"first-line\nsecond-line"}, nil, "{\"a\":\n\"first-line\\nsecond-line\"}", "{\"a\":\n\"****\"}"},
		"pattern":         {nil, []string{`ghp_[a-z]{4}`}, `{"a":"x ghp_abcd y"}`, `{"a":"x **** y"}`},
		"anchored":        {nil, []string{`^\d{3}$`}, `{"a":"123","b":"1234"}`, `{"a":"****","b":"1234"}`},
		"name and value":  {nil, []string{`"password":\s*"[^"]*"`}, `{"password": "abc","user":"abc"}`, `{"password": "****","user":"abc"}`},
		"greedy":          {nil, []string{`password=.*`}, `{"a":"password=1","b":"c","d":2}`, `{"a":"****","b":"****","d":"****"}`},
		"account":         {[]string{account}, nil, `{"got":` + account + `}`, `{"got":{"type":"****","private_key":"****","client_email":"****"}}`},
		"part of account": {[]string{account}, nil, `{"k":"-----BEGIN-----\nabcdefghijkl\n-----END-----\n","client_email":"robot@example.com"}`, `{"k":"****","client_email":"robot@example.com"}`},
		"no JSON":         {[]string{odd}, nil, `{"a":` + odd, `{"a":****`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, changed := redactor(test.secrets, test.patterns...).JSON([]byte(test.in))
			if string(got) != test.want || changed != (test.in != test.want) {
				t.Errorf("%s becomes (%v)\n%s, want\n%s", test.in, changed, got, test.want)
			}
		})
	}
}

// TestRedactorGetsNewSecrets checks that secrets and patterns that are added later take effect.
func TestRedactorGetsNewSecrets(t *testing.T) {
	var m Masker
	r := NewRedactor(&m, nil)
	const text = `{"a":"first-secret second-secret third"}`
	m.Add("first-secret")
	m.Add("second-secret")
	r.SetPatterns([]*regexp.Regexp{regexp.MustCompile("third")})
	if got, _ := r.JSON([]byte(text)); string(got) != `{"a":"**** **** ****"}` {
		t.Errorf("got %s", got)
	}
}

func FuzzRedactJSON(f *testing.F) {
	f.Add("secret", `{"a":"secret","b":"\u0073ecret","c":"{\"d\":\"secret\"}"}`)
	f.Add("12345", `[12345,"%31%32345"]`)
	f.Add(`{"a":1}`, `{"x":{"a":1}}`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		r := redactor([]string{secret})
		got, changed := r.JSON([]byte(text))
		if !changed && string(got) != text {
			t.Errorf("%q becomes %q, and is said not to have changed", text, got)
		}
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		if !json.Valid([]byte(text)) || strings.Contains(secret, "*") {
			return
		}
		eachText(t, got, func(s string) {
			if spans := r.masker.find(s); len(spans) > 0 {
				t.Errorf("%q: %q is left in %q", text, s, got)
			}
		})
		r.Text(text)
	})
}

// eachText calls f with each string and number in raw.
func eachText(t *testing.T, raw []byte, f func(s string)) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return
		}
		switch v := token.(type) {
		case string:
			f(v)
		case json.Number:
			f(v.String())
		}
	}
}

func BenchmarkRedactJSON(b *testing.B) {
	text := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat(`{\"id\":123,\"title\":\"something went wrong\"},\n`, 20) + `"}]}`)
	for _, n := range []int{0, 1, 20} {
		var secrets []string
		for i := range n {
			secrets = append(secrets, fmt.Sprintf("%d-ghp_%032d", i, i))
		}
		b.Run(fmt.Sprintf("%d secrets", n), func(b *testing.B) {
			r := redactor(secrets)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JSON(text)
			}
		})
	}
}
