package tools

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// screenshotSchema is part of a schema in Playwright's server. It lists properties as
// required because its handler always finds them set: they have defaults.
const screenshotSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
	"type":{"default":"png","type":"string","enum":["png","jpeg"]},
	"filename":{"type":"string"},
	"fullPage":{"type":"boolean"}},
	"required":["type"],"additionalProperties":false}`

// TestRequiredWithDefault checks that arguments may lack such a property, and that results
// may not.
func TestRequiredWithDefault(t *testing.T) {
	s := mustCompile(t, screenshotSchema)
	for args, want := range map[string]string{
		`{}`:                  "",
		`{"filename":"a"}`:    "",
		`{"type":"jpeg"}`:     "",
		`{"type":"gif"}`:      `/type: got string "gif", want one of "png", "jpeg"`,
		`{"type":null}`:       `/type: got null, want string`,
		`{"file":"a"}`:        `/: unknown property "file"`,
		`{"fullPage":"true"}`: `/fullPage: got string "true", want boolean`,
	} {
		err := s.ValidateArguments([]byte(args), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if err := s.Validate([]byte(`{}`), nil); err == nil || err.Error() != `/: missing property "type"` {
		t.Errorf("a value that is no arguments: %v", err)
	}
	for schema, valid := range map[string]bool{
		`{"properties":{"a":{"$ref":"#/$defs/d"}},"required":["a"],"$defs":{"d":{"type":"string","default":"x"}}}`: true,
		`{"properties":{"a":{"type":"string","default":5}},"required":["a"]}`:                                      false,
		`{"properties":{"a":{"type":["string","null"],"default":null}},"required":["a"]}`:                          true,
		`{"properties":{"a":{"default":1}},"required":["a","b"]}`:                                                  false,
		`{"properties":{"a":{"default":1}},"anyOf":[{"required":["a"]}]}`:                                          false,
	} {
		if err := mustCompile(t, schema).ValidateArguments([]byte(`{}`), nil); (err == nil) != valid {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct{ schema, args, want string }{
		{screenshotSchema, `{}`, `{"type":"png"}`},
		{screenshotSchema, ` { "filename" : "a" } `, ` { "filename" : "a" ,"type":"png"} `},
		{screenshotSchema, `{"type":"jpeg"}`, `{"type":"jpeg"}`},
		{`{"properties":{"b":{"default":[1.50,{"x":"<é>"}]},"a":{"default":null}}}`, `{}`, `{"a":null,"b":[1.50,{"x":"<é>"}]}`},
		{`{"properties":{"n":{"type":"integer","default":"5"},"m":{"default":12345678901234567890}}}`, `{}`, `{"m":12345678901234567890}`},
		{`{"properties":{"o":{"type":"object","properties":{"x":{"default":1}}}}}`, `{"o":{},"p":{}}`, `{"o":{"x":1},"p":{}}`},
		{`{"properties":{"o":{"type":"object","properties":{"x":{"default":1}}}}}`, `{}`, `{}`},
		{`{"properties":{"l":{"items":{"$ref":"#/$defs/i"}}},"$defs":{"i":{"properties":{"x":{"default":1}}}}}`, `{"l":[{},{"x":2},3,{"y":[]}]}`, `{"l":[{"x":1},{"x":2},3,{"y":[],"x":1}]}`},
		{`{"additionalProperties":{"properties":{"x":{"default":1}}}}`, `{"a~/b":{}}`, `{"a~/b":{"x":1}}`},
		{`{"prefixItems":[{},{"properties":{"x":{"default":1}}}]}`, `[{},{},{}]`, `[{},{"x":1},{}]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":{"properties":{"x":{"default":1}}}}`, `[{},{}]`, `[{},{"x":1}]`},
		{`{"allOf":[{"properties":{"x":{"default":1}}},{"properties":{"x":{"default":1},"y":{"default":2}}}]}`, `{}`, `{"x":1,"y":2}`},
		{`{"anyOf":[{"properties":{"x":{"default":1}}}]}`, `{}`, `{}`},
		{`{"$ref":"#/$defs/d","$defs":{"d":{"properties":{"x":{"$ref":"#/$defs/e"}}},"e":{"default":true}}}`, `{}`, `{"x":true}`},
		{`{"properties":{"a":{"default":1},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"b":2}`, `{"b":2}`},
		{`{"properties":{"a":{"default":1},"b":{"default":2}},"required":["a"],"maxProperties":1}`, `{}`, `{"a":1}`},
		{`{"properties":{"a":{"default":1}}}`, `[{}]`, `[{}]`},
	} {
		got, err := mustCompile(t, c.schema).Fill([]byte(c.args), nil)
		if err != nil || string(got) != c.want {
			t.Errorf("%s\n%s became %s, %v\nwant %s", c.schema, c.args, got, err, c.want)
		}
	}
	args := []byte(`{"type":"png"}`)
	if got, err := mustCompile(t, screenshotSchema).Fill(args, nil); err != nil || &got[0] != &args[0] {
		t.Errorf("arguments that lack nothing are a copy (%v)", err)
	}
}

// TestFillIsBounded checks that defaults within defaults are limited.
func TestFillIsBounded(t *testing.T) {
	s := mustCompile(t, fmt.Sprintf(`{"items":{"properties":{"x":{"default":%q}}}}`, strings.Repeat("x", 100_000)))
	many := list(1000, always("{}"))
	var wrong *ValidationError
	if _, err := s.Fill([]byte(many), nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "bytes longer") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Fill([]byte(many), AtMost(10_000)); !errors.As(err, new(*WorkError)) {
		t.Errorf("got %v", err)
	}
}

// FuzzFill checks that filled arguments are valid, and contain nothing new except defaults.
func FuzzFill(f *testing.F) {
	f.Add([]byte(screenshotSchema), []byte(`{"filename":"x"}`))
	f.Add([]byte(`{"properties":{"a":{"default":{"b":1}},"l":{"items":{"properties":{"x":{"default":[]}}}}}}`), []byte(`{"l":[{},{}]}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		s, err := CompileSchema(schema, "s")
		if err != nil || s.ValidateArguments(args, nil) != nil {
			return
		}
		filled, err := s.Fill(args, nil)
		if err != nil {
			return
		}
		if err := s.ValidateArguments(filled, nil); err != nil {
			t.Fatalf("%s became %s: %v", args, filled, err)
		}
		m := newMeter(nil)
		before, _ := parseValue(m, args, MaxValueDepth)
		after, err := parseValue(m, filled, MaxValueDepth)
		if err != nil || !within(before, after) {
			t.Fatalf("%s became %s", args, filled)
		}
	})
}

// within reports whether b is a with additional members in objects.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name, v := range a {
			ok = ok && within(v, b[name])
		}
		return ok
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			ok = ok && within(a[i], b[i])
		}
		return ok
	}
	return a == b
}
