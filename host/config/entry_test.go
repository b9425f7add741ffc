package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestMistakesOfOneUpstream checks that a mistake in one upstream is that one's problem
// only, if that is tolerated, and what remains of the others.
func TestMistakesOfOneUpstream(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{
		"config.toml": `
[upstream.good]
command = "good"
[upstream.needs]
command = "x"
env = { TOKEN = "${TOKEN}", OTHER = "${OTHER}" }
comand = "x"
[upstream.needs-not]
command = "x"
env = { TOKEN = "${TOKEN}" }
disabled = true
[upstream."a b"]
command = "x"
[upstream.go_od]
command = "x"
[upstream.go-od]
command = "x"
[upstream]
table = "no"
`,
		"config.json": `{"upstreamServers": [
	{"name": "good", "command": "good"},
	{"name": "needs", "command": "x", "env": {"TOKEN": "${TOKEN}", "OTHER": "${OTHER}"}, "comand": "x"},
	{"name": "needs-not", "command": "x", "env": {"TOKEN": "${TOKEN}"}, "disabled": true},
	{"name": "a b", "command": "x"},
	{"name": "go_od", "command": "x"}, {"name": "go-od", "command": "x"}, {"command": "x"}, 7
]}`,
	}
	for file, text := range texts {
		name := write(t, dir+"/"+file, text)
		opts := testOptions(name, dir, nil)
		if _, err := Load(opts); err == nil {
			t.Fatalf("%s: the mistakes are not reported", file)
		}
		opts.Tolerate = true
		c, err := Load(opts)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var names []string
		for _, u := range c.Upstreams {
			names = append(names, u.Name)
			want := ""
			if u.Name == "needs" {
				want = `its entry in the configuration is wrong: env.TOKEN: env TOKEN is not set (set it, or give a default: ${TOKEN:-}); env.OTHER: env OTHER is not set (set it, or give a default: ${OTHER:-}); unknown key "comand" (did you mean "command"?)`
			}
			if got := u.Invalid.text(); got != want {
				t.Errorf("%s: %s: %s, want %q", file, u.Name, got, want)
			}
			if u.Invalid != nil {
				unset, others := u.Invalid.Unset()
				if !slices.Equal(unset, []string{"TOKEN", "OTHER"}) || len(others) != 1 || !errors.As(u.Invalid, new(*UnsetError)) {
					t.Errorf("%s: not set: %q, and %v", file, unset, others)
				}
			}
		}
		slices.Sort(names)
		if want := []string{"go_od", "good", "needs", "needs-not"}; !slices.Equal(names, want) {
			t.Errorf("%s: upstreams %q, want %q", file, names, want)
		}
		left := 3 // the name with a space, the one that is taken, and what is no table
		if file == "config.json" {
			left++ // the one without a name
		}
		if got := c.LeftOut(); len(got) != left {
			t.Errorf("%s: %d left out, want %d: %v", file, len(got), left, got)
		}
	}
}

// TestMistakesElsewhere checks that only mistakes in upstreams are tolerated.
func TestMistakesElsewhere(t *testing.T) {
	for _, text := range []string{"[execution]\ntimeuot = \"1s\"\n", "[store]\ndir = \"${NOT_SET}\"\n", "upstream = 1\n", "[upstream\n"} {
		opts := testOptions(write(t, t.TempDir()+"/config.toml", text), "/nowhere", nil)
		opts.Tolerate = true
		if _, err := Load(opts); err == nil {
			t.Errorf("%q is tolerated", text)
		}
	}
}

// TestValuesAreNotPublic checks that the text which clients may see has no value of the file.
func TestValuesAreNotPublic(t *testing.T) {
	const pasted = "hunter2 hunter2"
	for _, entry := range []string{
		`timeout = "VALUE"`, `max_timeout = "VALUE"`, `isolation = "VALUE"`, `start = "VALUE"`, `restart = "VALUE"`, `protocol = "VALUE"`,
		`prefix = "VALUE"`, `expose = ["[VALUE"]`, `hide = ["[VALUE"]`, `transport = "VALUE"`, `disabled = "VALUE"`, `args = "VALUE"`,
		`env = { "VALUE=" = "" }`, `env = "VALUE"`, "url = \"VALUE\"\nheaders = { \"VALUE\" = \"x\" }", "url = \"VALUE\"",
		"url = \"https://a.example/%zzVALUE\"", "probe = { call = \"x\", expect = \"/(VALUE/\" }", "probe = { call = \"x\", timeout = \"VALUE\" }",
		"probe = { call = \"x\", every = \"VALUE\" }", "url = \"https://a.example\"\noauth = { scopes = [\"VALUE\"] }", "url = \"https://a.example\"\noauth = { issuer = \"VALUE\" }",
	} {
		dir := t.TempDir()
		text := "[upstream.one]\n" + strings.ReplaceAll(entry, "VALUE", pasted) + "\n"
		if !strings.Contains(text, "url =") {
			text += "command = \"x\"\n"
		}
		opts := testOptions(write(t, dir+"/config.toml", text), dir, nil)
		opts.Tolerate = true
		c, err := Load(opts)
		switch {
		case err != nil:
			t.Errorf("%s: %v", entry, err)
		case len(c.Upstreams) != 1 || c.Upstreams[0].Invalid == nil:
			t.Errorf("%s: nothing is wrong", entry)
		case strings.Contains(c.Upstreams[0].Invalid.Error(), "hunter2"):
			t.Errorf("%s: clients see the value: %v", entry, c.Upstreams[0].Invalid)
		}
	}
}
