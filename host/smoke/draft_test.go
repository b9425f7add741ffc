package smoke

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// drafted returns the checks of a draft, which must be a valid file.
func drafted(t *testing.T, d *Draft) (text string, checks map[string]*Check, s DraftSummary) {
	t.Helper()
	d.Path = filepath.Join(t.TempDir(), "checks.toml")
	if d.Upstreams == "" {
		d.Upstreams = "[upstream.s]\ncommand = \"s\"\n"
	}
	raw, s := d.Text()
	secret := func(name string) (string, bool) {
		if name == "TOKEN" {
			return "hunter2-hunter2", true
		}
		return "", false
	}
	f, err := Parse(d.Path, raw, LoadOptions{
		Load: config.LoadOptions{Getenv: secret, Home: func() (string, error) { return t.TempDir(), nil }},
		Vars: map[string][]byte{"value": []byte(`"of a variable"`)},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	checks = map[string]*Check{}
	skipped := 0
	for _, c := range f.Checks {
		checks[c.Name] = c
		if c.Skip != "" {
			skipped++
		}
	}
	if len(f.Checks) != s.Checks || skipped != s.Skipped {
		t.Errorf("%d checks, %d skipped, and the summary is %+v", len(f.Checks), skipped, s)
	}
	if len(f.Config.Upstreams) != 1 {
		t.Errorf("it has %d upstreams", len(f.Config.Upstreams))
	}
	return string(raw), checks, s
}

// readOnly returns the definition of a tool that only reads.
func readOnly(schema string) []byte {
	return fmt.Appendf(nil, `{"name":"t","inputSchema":%s,"annotations":{"readOnlyHint":true}}`, schema)
}

func TestDraftArguments(t *testing.T) {
	for _, tt := range []struct{ schema, params, skip string }{
		{`{"type":"object"}`, `{}`, ""},
		{`{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`, `{}`, ""},
		{`{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"]}`, `{"a":"x"}`, ""},
		{`{"type":"object","properties":{"a":{"const":1},"b":{"enum":["x","y"]},"c":{"examples":[[1.5]]}},"required":["c","b","a"]}`,
			`{"c":[1.5],"b":"x","a":1}`, ""},
		{`{"type":"object","properties":{"a":{"default":{"b":"${TOKEN} {{value}} \"'"}}},"required":["a"]}`, `{"a":{"b":"${TOKEN} {{value}} \"'"}}`, ""},
		{`{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"},"m":{"default":5}},"required":["q","n","m"]}`,
			`{"q":"","n":0,"m":5}`, "give it values for q, n, and remove this line"},
		{`{"type":"object","properties":{"l":{"type":"array"},"o":{"type":"object"},"b":{"type":"boolean"}},"required":["l","o","b"]}`,
			`{"l":[],"o":{},"b":false}`, "give it values for l, o, b, and remove this line"},
		// Not valid for its own schema.
		{`{"type":"object","properties":{"a":{"type":"integer","default":"x"}},"required":["a"]}`, `{"a":"x"}`, "give it params, and remove this line"},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "give it params, and remove this line"},
		// TOML has no null.
		{`{"type":"object","properties":{"a":{"default":null}},"required":["a"]}`, `{"a":""}`, "give it values for a, and remove this line"},
		{`{"type":"object","properties":{"a":{"default":"` + strings.Repeat("x", maxDraftedParams) + `"}},"required":["a"]}`, `{}`, "give it params, and remove this line"},
		// Not schemas.
		{`{"type":"string"}`, `{}`, "its inputSchema cannot be used, so give it params, and remove this line"},
		{`{"type":"object","required":"a"}`, `{}`, "its inputSchema cannot be used, so give it params, and remove this line"},
		{`5`, `{}`, "its inputSchema cannot be used, so give it params, and remove this line"},
	} {
		tool := DraftTool{Name: "s__t", Definition: readOnly(tt.schema)}
		_, checks, _ := drafted(t, &Draft{Servers: []DraftServer{{Name: "s", Tools: []DraftTool{tool}}}})
		c := checks["s__t"]
		if string(c.Params) != tt.params || c.Skip != tt.skip {
			t.Errorf("%.200s: params %s, skip %q", tt.schema, c.Params, c.Skip)
		}
		args, ok := tool.Arguments()
		if ok != (tt.skip == "") || ok && string(args) != tt.params {
			t.Errorf("%s: arguments %s, %v", tt.schema, args, ok)
		}
	}
}

// TestDraftCallsOnlyReaders checks that a tool is called only if it says that it only reads.
func TestDraftCallsOnlyReaders(t *testing.T) {
	definition := func(annotations string) []byte {
		return []byte(`{"name":"t","inputSchema":{"type":"object"}` + annotations + `}`)
	}
	d := &Draft{
		Servers: []DraftServer{{Name: "s", Tools: []DraftTool{
			{Name: "reads", Definition: definition(`,"annotations":{"readOnlyHint":true}`)},
			{Name: "refused", Definition: definition(`,"annotations":{"readOnlyHint":true}`), Refused: "it failed: ${TOKEN}\n[x]"},
			{Name: "none", Definition: definition(``)},
			{Name: "false", Definition: definition(`,"annotations":{"readOnlyHint":false}`)},
			{Name: "text", Definition: definition(`,"annotations":{"readOnlyHint":"true"}`)},
			{Name: "elsewhere", Definition: definition(`,"readOnlyHint":true`)},
		}}},
		Saved: []tools.Definition{{Name: "saved", Description: "Does\nsomething.", InputSchema: []byte(`{"type":"object"}`)}},
	}
	text, checks, s := drafted(t, d)
	if len(checks) != 4 || checks["reads"].Skip != "" || checks["refused"].Skip != "it failed: ${TOKEN}\n[x]" || checks["saved"].Skip == "" || s.Left != 4 {
		t.Errorf("%+v, %+v", checks, s)
	}
	if !strings.Contains(text, "# Not called, because they do not say that they only read: none, false, text, elsewhere\n") || !strings.Contains(text, "\n# Does something.\n") {
		t.Errorf("it does not say what is not called:\n%s", text)
	}
	d.All = true
	_, checks, s = drafted(t, d)
	for name, c := range checks {
		if (c.Skip == "") != (name == "reads" || name == "s") {
			t.Errorf("%s: skip %q", name, c.Skip)
		}
	}
	if len(checks) != 8 || s.Left != 0 {
		t.Errorf("%d checks, %+v", len(checks), s)
	}
}

// TestDraftOfHostileServers checks that nothing that a server says becomes anything but data.
func TestDraftOfHostileServers(t *testing.T) {
	evil := "x\"\n[upstream.evil]\ncommand = 'sh'\n#${TOKEN}{{value}}\u202e\u2028\U000e0041\x1b[2J'''\\"
	quoted := string(wire.Quote(evil))
	names := map[wire.Surface][]string{
		wire.Tools:   {evil, "${TOKEN}", "{{value}}", "$${", `\{{`, "\xff", strings.Repeat("y", 100)},
		wire.Prompts: {evil, "\x00"}, wire.Templates: {"file:///{path}", evil}, wire.Resources: {evil},
	}
	d := &Draft{Lock: true, LeftOut: []string{evil}, Servers: []DraftServer{{Name: "s", Names: names, Tools: []DraftTool{
		{Name: "s__a", Definition: []byte(`{"description":` + quoted + `,"inputSchema":{"type":"object","properties":{` + quoted + `:{"default":` + quoted + `}},"required":[` + quoted + `]},"annotations":{"readOnlyHint":true}}`)},
		{Name: "s__b", Definition: readOnly(`{"type":"object","properties":{"a":{"default":"\u0000"}},"required":["a"]}`)},
		{Name: evil, Definition: []byte(`{}`)},
	}}}}
	text, checks, _ := drafted(t, d)
	if len(checks) != 3 || checks["s__a"].Skip != "" || checks["s__b"].Skip == "" || checks["s"] == nil {
		t.Fatalf("%d checks", len(checks))
	}
	if got, want := string(checks["s__a"].Params), `{`+quoted+`:`+quoted+`}`; got != want {
		t.Errorf("params %s, want %s", got, want)
	}
	if strings.ContainsAny(text, "\u202e\u2028\U000e0041\x00\x1b") || strings.Contains(text, "hunter2") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(text, `expect.schema_lock = "checks.lock.json"`) || strings.Contains(text, "expect.resources") {
		t.Errorf("%s", text)
	}
}

func TestDraftIsBounded(t *testing.T) {
	d := &Draft{Servers: []DraftServer{{Name: "s"}}}
	for i := range maxDrafted + 5 {
		d.Servers[0].Tools = append(d.Servers[0].Tools, DraftTool{Name: fmt.Sprintf("t%d", i), Definition: readOnly(`{"type":"object"}`)})
	}
	if _, _, s := drafted(t, d); s.Checks != maxDrafted+1 || s.Left != 5 {
		t.Errorf("%+v", s)
	}
}

// TestDraftUsesConfiguration checks that a file with a configuration has its servers.
func TestDraftUsesConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[upstream.s]\ncommand = \"s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Draft{Path: filepath.Join(dir, "checks.toml"), Config: "config.toml", Servers: []DraftServer{{Name: "s"}}}
	text, _ := d.Text()
	f, err := Parse(d.Path, text, LoadOptions{Load: config.LoadOptions{Home: func() (string, error) { return dir, nil }}})
	if err != nil || len(f.Checks) != 1 || f.Checks[0].Server != "s" {
		t.Errorf("%v\n%s", err, text)
	}
}
