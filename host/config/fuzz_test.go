package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// fuzzSecret is the value of every variable with the name of a secret. It must not be in
// anything that is shown.
const fuzzSecret = "S3CRET~VALUE~0123456789"

func fuzzEnv(key string) (string, bool) {
	switch {
	case key == "HOME":
		return "/home/me", true
	case strings.Contains(key, "TOKEN"):
		return fuzzSecret, true
	}
	return "", false
}

func FuzzTOML(f *testing.F) {
	addSeeds(f, ".toml")
	f.Add([]byte("[upstream.a]\ncommand = \"${TOKEN}\"\nargs = [\"${TOKEN}\"]\ntimeout = \"${TOKEN}\"\nprefix = \"${TOKEN}\"\n" +
		"expose = [\"${TOKEN}\", \"[${TOKEN}\"]\ncwd = \"~${TOKEN}\"\n[store]\ndir = \"${TOKEN}/x\"\n"))
	f.Add([]byte("upstream.a.command = \"x\"\nupstream.a.env.X = \"a${TOKEN}b\"\n\"\".x = 1\n[[upstream.a.b]]\nc.d = {e=1}\n"))
	f.Add([]byte("a = [[[[[[[[]]]]]]]]\n[upstream.\"${TOKEN}\"]\ncommand = '${TOKEN}'\n"))
	f.Add([]byte("[[http.tokens]]\nname = \"a\"\nsha256 = \"${TOKEN}\"\nexpires = 2027-01-01\nhide = [\"a.*\"]\ntools = \"own\"\n[[http.tokens]]\ntoken = \"${TOKEN}\"\nexpires = \"${TOKEN}\"\n"))
	f.Add([]byte("[http]\nlisten = \"${TOKEN}:1\"\npath = \"/${TOKEN}\"\ntokens = [\"${TOKEN}\"]\nallowed_origins = [\"http://${TOKEN}\"]\n" +
		"allowed_hosts = [\"${TOKEN}\"]\ntls_cert = \"${TOKEN}\"\ntls_key = \"${TOKEN}\"\nsession_ttl = \"${TOKEN}\"\n" +
		"[upstream.a]\nurl = \"http://h/${TOKEN}?a=${TOKEN}#${TOKEN}\"\nheaders = { X = \"${TOKEN}\\n\" }\ntransport = \"${TOKEN}\"\n" +
		"restart = \"${TOKEN}\"\noauth = { client_id = \"${TOKEN}\", client_secret = \"${TOKEN}\", scopes = [\"${TOKEN}\"] }\n"))
	f.Add([]byte("[upstream.a]\nurl = \"http://${TOKEN}:${TOKEN}@h/${TOKEN}\"\nheaders = { Authorization = \"Basic ${TOKEN}\", Y = \"a${TOKEN}\" }\n" +
		"[upstream.b]\nurl = \"http://h/\"\noauth = { client_id = \"${TOKEN}\", client_secret = \"${TOKEN}\", scopes = [\"${TOKEN}\"] }\n" +
		"[http]\nlisten = \"h${TOKEN}:1\"\ntokens = [\"${TOKEN}\"]\nallowed_hosts = [\"${TOKEN}\"]\n"))
	f.Add([]byte("[upstream.a]\ncommand = \"x\"\nprobe = { call = \"${TOKEN}\", params = { a = [\"${TOKEN}\", { b = \"x${TOKEN}\" }] }, expect = \"/${TOKEN}(/\" }\n" +
		"[upstream.b]\ncommand = \"x\"\nprobe = { call = \"x\", params = { \"\\\"\" = \"${TOKEN}\", f = 1e400 }, expect = { a = [\"${TOKEN}\"] } }\n"))
	f.Fuzz(func(t *testing.T, data []byte) { loadUntrusted(t, "config.toml", data) })
}

func FuzzJSON(f *testing.F) {
	addSeeds(f, ".json")
	f.Add([]byte(`{"upstreamServers": {"a": {"command": "${TOKEN}", "args": ["--x=${TOKEN}"], "timeout": "${TOKEN}"}}}`))
	f.Add([]byte(`{"mcpServers": {"\"\\": {"command": "x", "env": {"": "${TOKEN}", "A=": 1}}}, "x\"\\": 1e400}`))
	f.Add([]byte(`{"upstreamServers": [{"name": "${TOKEN}", "command": "c", "type": "${TOKEN}"}], "execution": {"maxMemory": "${TOKEN}"}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"url": "https://h/?k=${TOKEN}", "type": "http", "headers": {"X-A": "${TOKEN}", "x-a": ""}, "oauth": {"clientId": "${TOKEN}"}}},
		"http": {"tokens": ["${TOKEN}", "${TOKEN} "], "sessionTtl": 1e9, "listen": "${TOKEN}"}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "probe": {"call": "x", "params": {"a": 1e999, "b": "${TOKEN}"}, "expect": [null, "${TOKEN}"]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) { loadUntrusted(t, "config.json", data) })
}

// addSeeds adds the configurations of the golden tests.
func addSeeds(f *testing.F, ext string) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	seeds := 0
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if filepath.Ext(archive.Files[0].Name) == ext {
			f.Add(archive.Files[0].Data)
			seeds++
		}
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
}

// loadUntrusted loads a file with arbitrary content. The result must be an error, or a
// configuration that satisfies checkInvariants, and no secret may be shown.
func loadUntrusted(t *testing.T, name string, data []byte) {
	if bytes.Contains(data, []byte(fuzzSecret)) {
		t.Skip("the secret is in the file itself")
	}
	l := &loader{getenv: fuzzEnv, home: func() (string, error) { return "/home/me", nil }}
	c := newConfig()
	if problem := l.parse(c, name, data, nil); problem != nil {
		l.problems = append(l.problems, problem)
	}
	l.environment(c)
	err := join(l.problems)
	var shown strings.Builder
	if err != nil {
		shown.WriteString(err.Error())
	} else {
		checkInvariants(t, c)
		if err := c.Describe(&shown); err != nil {
			t.Fatal(err)
		}
		shown.WriteString(strings.Join(c.Warnings(), "\n"))
	}
	if strings.Contains(shown.String(), fuzzSecret) {
		t.Errorf("the secret is shown:\n%s", shown.String())
	}
}

// checkInvariants checks what the comments of Config promise.
func checkInvariants(t *testing.T, c *Config) {
	if !filepath.IsAbs(c.Store.Dir) {
		t.Errorf("store %q is not absolute", c.Store.Dir)
	}
	all := c.limits()
	for i := range c.Upstreams {
		all = append(all, c.Upstreams[i].limits()...)
		if p := c.Upstreams[i].Probe; p != nil {
			all = append(all, p.limits()...)
		}
	}
	for _, l := range all {
		if unset := l.value() == 0 && l.Derived != ""; !unset && (l.value() < l.Least || l.value() > l.Most) {
			t.Errorf("%s is out of bounds: %s", l.Setting(), l.Format(l.value()))
		}
	}
	if _, err := ParseListen(c.HTTP.Listen); err != nil || c.HTTP.Path[0] != '/' || (c.HTTP.CertFile == "") != (c.HTTP.KeyFile == "") {
		t.Errorf("[http] %+v", c.HTTP)
	}
	seen := map[string]bool{}
	for _, u := range c.Upstreams {
		if !namePattern.MatchString(u.Name) || seen[u.Name] || !prefixPattern.MatchString(u.Prefix) || u.Timeout <= 0 ||
			u.MaxTimeout < u.Timeout || u.Dir != "" && !filepath.IsAbs(u.Dir) {
			t.Errorf("upstream %+v", u)
		}
		if u.Restart == "" || u.Isolation == "" || u.Start == "" {
			t.Errorf("upstream %+v is not complete", u)
		}
		remote := u.Transport == StreamableHTTP || u.Transport == LegacySSE
		if !remote && (u.Transport != Stdio || u.URL != "" || u.Headers != nil || u.OAuth != nil) || remote && (u.Command != "" || u.Args != nil || u.Env != nil) {
			t.Errorf("upstream %q has what does not go together: %+v", u.Name, u)
		}
		if !u.Disabled && remote != strings.HasPrefix(strings.ToLower(u.URL), "http") || !u.Disabled && remote == (strings.TrimSpace(u.Command) != "") {
			t.Errorf("upstream %q has neither command nor address", u.Name)
		}
		checkHeaders(t, u.Headers)
		if p := u.Probe; p != nil && (!u.Disabled && (p.Call == "" || u.Hides(p.Call)) || !json.Valid(p.Params) ||
			p.Expect != nil && p.Expect.Value != nil && !json.Valid(p.Expect.Value)) {
			t.Errorf("upstream %q: probe %+v", u.Name, p)
		}
		seen[u.Name] = true
	}
	for i, s := range c.Secrets {
		if len(s) < MinSecret || i > 0 && len(s) > len(c.Secrets[i-1]) {
			t.Errorf("secrets %q are too short or out of order", c.Secrets)
		}
	}
}

var errDialed = errors.New("dialed")

// neverConnects checks requests as net/http does, and does not send them.
var neverConnects = &http.Transport{
	DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errDialed },
}

// checkHeaders checks that net/http accepts the headers.
func checkHeaders(t *testing.T, headers map[string]string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	if len(request.Header) != len(headers) {
		t.Errorf("headers %q have one name twice", headers)
	}
	response, err := neverConnects.RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, errDialed) {
		t.Errorf("headers %q: %v", headers, err)
	}
}

// FuzzExpand checks that expansion ends, that it changes nothing without an expression,
// and that the reported parts come from variables.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "${", "$${", "${TOKEN}", "a${TOKEN}b${NO:-x}$${TOKEN}", "${HOME:-}", "${A:-${B}}", "é${TOKEN}\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, errs := expand(s, fuzzEnv)
		if !strings.Contains(s, "${") && (e.text != s || len(errs) > 0) {
			t.Errorf("%q became %q, %v", s, e.text, errs)
		}
		for _, v := range e.vars {
			if want, _ := fuzzEnv(v.name); e.text[v.from:v.to] != want {
				t.Errorf("%q: %s is said to be %q", s, v.name, e.text[v.from:v.to])
			}
		}
		escaped := strings.ReplaceAll(s, "${", "$${")
		if !strings.Contains(s, "$${") {
			if e, errs := expand(escaped, fuzzEnv); e.text != s || len(errs) > 0 {
				t.Errorf("%q escaped became %q, %v", s, e.text, errs)
			}
		}
		secretParts("", s)
		looksSecret(s)
	})
}

// FuzzMask checks that no secret is left. Secrets with stars are skipped, because masks
// consist of stars.
func FuzzMask(f *testing.F) {
	f.Add("hunter22", "cdef", "a hunter22cdef")
	f.Add("abab", "babx", "ababababx")
	f.Add(`a"b\`, "%41bcd", `"a\"b\\" Abcd`)
	f.Fuzz(func(t *testing.T, secret, other, text string) {
		var m Masker
		m.Add(secret, other)
		masked := m.Mask(text)
		for _, s := range []string{secret, other} {
			if len(s) >= MinSecret && !strings.Contains(s, "*") && strings.Contains(masked, s) {
				t.Errorf("%q of %q, %q: %q is left in %q", text, secret, other, s, masked)
			}
		}
	})
}
