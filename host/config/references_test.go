package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSplitReferences(t *testing.T) {
	text, ref := func(s string) piece { return piece{text: s} }, func(s string) piece { return piece{name: s} }
	for in, want := range map[string][]piece{
		"":                       nil,
		"x":                      {text("x")},
		"{{a}}":                  {ref("a")},
		"{{  a-b_1 }}":           {ref("a-b_1")},
		"x{{a}}{{b}}y":           {text("x"), ref("a"), ref("b"), text("y")},
		`\{{a}} {{b}}`:           {text("{{a}} "), ref("b")},
		`\\{{a}}`:                {text(`\{{a}}`)},
		`\d\{\{`:                 {text(`\d\{\{`)},
		`{"a":{"b":{}}} }} {a} `: {text(`{"a":{"b":{}}} }} {a} `)},
		"{{a}}}":                 {ref("a"), text("}")},
	} {
		if got, err := splitReferences(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %+v (%v), want %+v", in, got, err, want)
		}
	}
	for _, wrong := range []string{"{{", "{{}}", "{{ }}", "{{a", "{{a b}}", "{{1}}", "{{a.b}}", "{{{a}}}", "{{é}}", "x {{a}} {{"} {
		if _, err := splitReferences(wrong); !errors.Is(err, errReferenceForm) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// FuzzReferences fills references in a string with hostile values. A value is never
// expanded, and everything else is as it would be without references.
func FuzzReferences(f *testing.F) {
	for _, s := range []string{"{{a}}", "x{{a}}y{{b}}", `\{{a}} ${TOKEN}`, "{{a}}{TOKEN}", "{{a}}${TOKEN}", "$${{a}}", "$${{{a}}"} {
		f.Add(s, "$")
		f.Add(s, "${TOKEN}")
		f.Add(s, `\{{b}} "`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		value = strings.ToValidUTF8(value, "")
		if !json.Valid([]byte(mustJSON(text))) || strings.ContainsRune(text+value, 0) || strings.Contains(text, "�") {
			t.Skip()
		}
		pieces, err := splitReferences(text)
		if err != nil {
			return
		}
		var again strings.Builder
		want, plain := "", true // what the string must become
		for _, p := range pieces {
			if p.name != "" {
				again.WriteString("{{" + p.name + "}}")
				want += value
				continue
			}
			again.WriteString(strings.ReplaceAll(p.text, "{{", `\{{`))
			e, errs := expand(p.text, fuzzEnv)
			plain = plain && len(errs) == 0 && len(e.refs) == 0
			want += e.text
		}
		if back, err := splitReferences(again.String()); err != nil || !reflect.DeepEqual(back, pieces) {
			t.Errorf("%q is %+v, written again it is %+v (%v)", text, pieces, back, err)
		}
		got, secrets, missing := fillText(t, text, value)
		if plain && missing == nil && got != want {
			t.Errorf("%q with %q is %q, want %q", text, value, got, want)
		}
		if !strings.Contains(text, "TOKEN") && (slices.Contains(secrets, fuzzSecret) || strings.Contains(got, fuzzSecret)) {
			t.Errorf("the value %q has been expanded in %q", value, text)
		}
	})
}

func mustJSON(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return ""
	}
	return string(raw)
}

// fillText returns a string of a file with its references filled in.
func fillText(t *testing.T, text, value string) (got string, secrets []string, missing *Problem) {
	n := &node{kind: kindString, text: text}
	r := &reader{getenv: fuzzEnv, shown: map[string]string{}}
	s := &Section{&table{r: r, node: &node{kind: kindTable, keys: []string{"x"}, fields: map[string]*node{"x": n}}}}
	filled := s.Fill(Filling{Value: func(string) ([]byte, error) { return []byte(mustJSON(value)), nil }})
	missing = filled.Missing("x")
	got, _ = filled.String("x")
	return got, r.secrets, missing
}

// TestFill keeps the types of values, and says which are missing.
func TestFill(t *testing.T) {
	values := map[string]string{"n": "5", "f": "1e5", "s": `"${TOKEN} {{n}}"`, "o": `{"a":[null,"${TOKEN}"]}`, "null": "null"}
	text := `
a = "{{n}}"
b = ["{{o}}", "x{{o}}", "{{f}}", "{{null}}{{n}}"]
c = { d = "{{s}}-$${HOME}-${HOME}" }
e_json = '{"x": ["{{o}}", "\\{{n}}"], "{{n}}": "{{s}}"}'
code = "{{"
none = { deep = ["{{what}}"] }
unset = "${NOT_SET}"
name = "${NOT_SET} {{n}}"
`
	opts := LoadOptions{Getenv: fuzzEnv, Home: func() (string, error) { return t.TempDir(), nil }}
	unknown := errors.New("not known")
	_, err := LoadWithin(opts, "x.toml", []byte(text), func(top *Section) {
		f := Filling{
			Skip: []string{"code"}, Verbatim: []string{"name"}, JSONText: func(key string) bool { return key == "e_json" },
			Value: func(name string) ([]byte, error) {
				if v, ok := values[name]; ok {
					return []byte(v), nil
				}
				return nil, unknown
			},
		}
		s := top.Fill(f)
		for key, want := range map[string]string{
			"a": "5", "b": `[{"a":[null,"${TOKEN}"]},"x{\"a\":[null,\"${TOKEN}\"]}",1e5,"null5"]`,
			"c": `{"d":"${TOKEN} {{n}}-${HOME}-/home/me"}`, "e": `{"x":[{"a":[null,"${TOKEN}"]},"{{n}}"],"{{n}}":"${TOKEN} {{n}}"}`,
			"none": "", "unset": "",
		} {
			if got := string(s.JSON(key)); got != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		if name, _ := s.Verbatim("name"); name != "${NOT_SET} 5" {
			t.Errorf("the name is %q", name)
		}
		if text, ok := s.String("a"); text != "5" || !ok {
			t.Errorf("a number where a string is wanted is %q", text)
		}
		missing := s.Missing("none")
		if missing == nil || !errors.Is(missing, unknown) || missing.Key != "none.deep[0]" || missing.Line != 7 {
			t.Errorf("missing is %+v", missing)
		}
		var unset *UnsetError
		if missing := s.Missing("unset"); missing == nil || !errors.As(missing, &unset) || s.Missing("a") != nil || s.Missing("") == nil {
			t.Errorf("missing is %+v", missing)
		}
		values["what"] = `"now known"`
		secrets, err := top.Reread(f, func(s *Section) {
			if got := string(s.JSON("none")); got != `{"deep":["now known"]}` {
				t.Errorf("read again, it is %s", got)
			}
			s.Problem("none", "is wrong")
		})
		if err == nil || err.Error() != "x.toml:7:1: none: is wrong" || secrets != nil {
			t.Errorf("read again: %v, secrets %q", err, secrets)
		}
		top.Know("a", "b", "c", "e_json", "code", "none", "unset", "name")
	})
	if err != nil {
		t.Error(err)
	}
}

// TestExtend takes from another configuration what a file does not set itself.
func TestExtend(t *testing.T) {
	dir := t.TempDir()
	base := write(t, filepath.Join(dir, "base.json"), `{"mcpServers": {"a": {"command": "one", "env": {"TOKEN": "${OTHER_TOKEN}"}}, "b": {"command": "two", "args": ["${NOT_SET}"]}, "c": {"command": "three", "args": ["${NOT_SET}"]}},
		"store": {"dir": "kept"}, "execution": {"maxCalls": 5, "maxFuel": 70000000}}`)
	var unset []string
	opts := LoadOptions{Getenv: fuzzEnv, Home: func() (string, error) { return dir, nil }, Unset: func(upstream string, p *Problem) {
		unset = append(unset, upstream)
	}}
	text := "[upstream.b]\ncommand = \"own\"\n[upstream.d]\ncommand = \"${X}\"\n[execution]\nmax_calls = 6\n"
	c, err := LoadWithin(opts, filepath.Join(dir, "x.toml"), []byte(text), func(top *Section) {
		top.Variables(map[string]string{"X": "from the profile", "OTHER_TOKEN": fuzzSecret})
		top.Extend(opts, base)
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range c.Upstreams {
		got = append(got, u.Name+" "+u.Command)
	}
	if want := []string{"a one", "c three", "b own", "d from the profile"}; !slices.Equal(got, want) {
		t.Errorf("upstreams are %q, want %q", got, want)
	}
	if !slices.Equal(unset, []string{"c"}) {
		t.Errorf("variables are missing for %q", unset)
	}
	if c.Execution.MaxCalls != 6 || c.Execution.MaxFuel != 70000000 || c.Store.Dir != filepath.Join(dir, "kept") || filepath.Base(c.Path) != "x.toml" {
		t.Errorf("%d calls, %d fuel, store %s, path %s", c.Execution.MaxCalls, c.Execution.MaxFuel, c.Store.Dir, c.Path)
	}
	if got := c.NewMasker().Mask(fuzzSecret); got != mask {
		t.Errorf("the secret of the base is shown: %s", got)
	}
}

// TestExtendPolicy checks that each file reports the mistakes in its own rules: those of both files
// are one policy.
func TestExtendPolicy(t *testing.T) {
	dir := t.TempDir()
	rule := func(name, when string) string {
		return fmt.Sprintf("[[policy.rule]]\nname = %q\nwhen = %q\naction = \"deny\"\n", name, when)
	}
	opts := LoadOptions{Getenv: fuzzEnv, Home: func() (string, error) { return dir, nil }, Policies: func(p *Policy) (_ CompiledPolicy, mistakes []RuleMistake) {
		for i, rule := range p.Rules {
			if rule.When == "wrong" {
				mistakes = append(mistakes, RuleMistake{Rule: i, Offset: -1, Text: "is wrong"})
			}
		}
		return nil, mistakes
	}}
	for _, tt := range []struct{ base, own, want string }{
		{rule("a", "wrong") + rule("b", "true"), rule("c", "wrong"), `base.toml:3:1: policy rule "a": when: is wrong` + "\n" + `x.toml:3:1: policy rule "c": when: is wrong`},
		{rule("a", "true"), rule("b", "true") + rule("c", "wrong"), `x.toml:7:1: policy rule "c": when: is wrong`},
		{rule("a", "true"), rule("a", "true"), `x.toml:2:1: policy rule "a": name: is that of an earlier rule (errors and records name a rule by it)`},
		{rule("a", "true"), "", ""},
		{"", rule("a", "true"), ""},
	} {
		base := write(t, filepath.Join(dir, "base.toml"), tt.base)
		c, err := LoadWithin(opts, filepath.Join(dir, "x.toml"), []byte(tt.own), func(top *Section) { top.Extend(opts, base) })
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		} else if len(c.Policy.Rules) != 1 {
			t.Errorf("%q", c.Policy.Rules)
		}
		if got != tt.want {
			t.Errorf("%s\n%s\n= %s\nwant %s", tt.base, tt.own, got, tt.want)
		}
	}
}
