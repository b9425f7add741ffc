package config

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// fuzzSecret is the value of every variable whose name looks secret; nothing
// that is shown may have it.
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
	f.Fuzz(func(t *testing.T, data []byte) { loadHostile(t, "config.toml", data) })
}

func FuzzJSON(f *testing.F) {
	addSeeds(f, ".json")
	f.Add([]byte(`{"upstreamServers": {"a": {"command": "${TOKEN}", "args": ["--x=${TOKEN}"], "timeout": "${TOKEN}"}}}`))
	f.Add([]byte(`{"mcpServers": {"\"\\": {"command": "x", "env": {"": "${TOKEN}", "A=": 1}}}, "x\"\\": 1e400}`))
	f.Add([]byte(`{"upstreamServers": [{"name": "${TOKEN}", "command": "c", "type": "${TOKEN}"}], "execution": {"maxMemory": "${TOKEN}"}}`))
	f.Fuzz(func(t *testing.T, data []byte) { loadHostile(t, "config.json", data) })
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

// loadHostile loads a file that may hold anything: it must give a
// configuration that keeps its promises or an error, and show no secret.
func loadHostile(t *testing.T, name string, data []byte) {
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
		checkPromises(t, c)
		if err := c.Describe(&shown); err != nil {
			t.Fatal(err)
		}
		shown.WriteString(strings.Join(c.Warnings(), "\n"))
	}
	if strings.Contains(shown.String(), fuzzSecret) {
		t.Errorf("the secret is shown:\n%s", shown.String())
	}
}

// checkPromises holds a configuration against the comments of Config.
func checkPromises(t *testing.T, c *Config) {
	if !filepath.IsAbs(c.Store.Dir) {
		t.Errorf("store %q is not absolute", c.Store.Dir)
	}
	if c.Execution.Timeout < minTimeout || c.Execution.MaxMemory < minMaxMemory || c.MaxMessage < minMaxMessage || c.StartupWait < 0 {
		t.Errorf("out of bounds: %+v", c)
	}
	seen := map[string]bool{}
	for _, u := range c.Upstreams {
		if !namePattern.MatchString(u.Name) || seen[u.Name] || !prefixPattern.MatchString(u.Prefix) || u.Timeout <= 0 ||
			u.Dir != "" && !filepath.IsAbs(u.Dir) {
			t.Errorf("upstream %+v", u)
		}
		if strings.TrimSpace(u.Command) == "" && !u.Disabled {
			t.Errorf("upstream %q has no command", u.Name)
		}
		seen[u.Name] = true
	}
	for i, s := range c.Secrets {
		if len(s) < MinSecret || i > 0 && len(s) > len(c.Secrets[i-1]) {
			t.Errorf("secrets %q are too short or out of order", c.Secrets)
		}
	}
}

// FuzzExpand checks that expansion ends, that it changes nothing without an
// expression, and that the parts it says come from variables do.
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

// FuzzMask checks that no secret is left of those without a star, which is
// what masks consist of.
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
