package tools

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func mustCompile(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := CompileSchema([]byte(raw), "schema")
	if err != nil {
		t.Fatalf("CompileSchema(%s): %v", display.Clip(raw, 200), err)
	}
	return s
}

func TestCompileInputSchema(t *testing.T) {
	t.Parallel()
	const typ = `{"type":"object",`
	for _, c := range []struct{ raw, want string }{
		{`{"type":"object"}`, ""},
		{typ + `"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string"}}}`, ""},
		{typ + `"properties":{"a":{"$ref":"#"}}}`, ""},
		{typ + `"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"$id":"#n"}},"properties":{"a":{"$ref":"#n"}}}`, ""},
		{typ + `"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, ""},
		{typ + `"$schema":"https://json-schema.org/draft/2019-09/schema"}`, ""},
		{typ + `"properties":{"schema":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, ""},
		{typ + `"$id":"https://example.com/s","properties":{"a":{"$ref":"https://example.com/s#/$defs/n"}},"$defs":{"n":{}}}`, ""},
		{``, `inputSchema: is missing (the smallest is {"type": "object"})`},
		{`{`, `inputSchema: /: not valid JSON: unexpected EOF (at byte 1)`},
		{`[]`, `inputSchema: must be a JSON object, is array`},
		{`true`, `inputSchema: must be a JSON object, is true`},
		{`{}`, `inputSchema: root "type" is missing (the arguments of a tool are an object: add "type": "object")`},
		{`{"type":"string"}`, `inputSchema: root "type" is "string", must be "object" (the arguments of a tool are an object)`},
		{`{"type":["object"]}`, `inputSchema: root "type" is ["object"], must be "object" (the arguments of a tool are an object)`},
		{`{"type":"object","type":"object"}`, `inputSchema: /type: not valid JSON: duplicate object member name (at byte 17)`},
		{typ + `"properties":{"a":{"type":"strin"}}}`, `inputSchema: /properties/a/type: got string "strin", want one of "array", "boolean", "integer", "null", "number", "object", "string" (did you mean "string"?)`},
		{typ + `"required":"a"}`, `inputSchema: /required: got string "a", want array`},
		{typ + `"x":{"y":{"type":5}},"properties":{"a":{"$ref":"#/x/y"}}}`, `inputSchema: /x/y/type: got number 5, want one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		{typ + `"$ref":"https://example.com/x.json"}`, `inputSchema: reference to "https://example.com/x.json": schemas are never loaded from network or disk (copy what it refers to under "$defs" and refer to "#/$defs/NAME")`},
		{typ + `"$ref":"other.json#/a"}`, `inputSchema: reference to "other.json": schemas are never loaded`},
		{typ + `"$ref":"file:///etc/passwd"}`, `inputSchema: reference to "file:///etc/passwd": schemas are never loaded`},
		{typ + `"$id":"file:///etc/","properties":{"a":{"$ref":"passwd"}}}`, `inputSchema: reference to "file:///etc/passwd": schemas are never loaded`},
		{typ + `"$ref":"#/$defs/a"}`, `inputSchema: "$ref" to #/$defs/a: nothing is there`},
		{typ + `"$ref":"#a"}`, `inputSchema: "$ref" to #a: there is no such anchor`},
		{typ + `"$schema":"https://example.com/s#"}`, `inputSchema: "$schema" "https://example.com/s#" is not known`},
		{typ + `"$schema":7}`, `inputSchema: /$schema: got number 7, want string`},
		{typ + `"$ref":"#"}`, `inputSchema: "$ref" cycle at #: it leads back to itself`},
		{typ + `"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, `inputSchema: "$ref" cycle at #/$defs/a`},
		{typ + `"properties":{"a":{"pattern":"(?=x)"}}}`, "inputSchema: /properties/a/pattern: got string \"(?=x)\", want format regex (error parsing regexp: invalid or unsupported Perl syntax: `(?=`)"},
		{typ + `"properties":{"a":{"pattern":"` + strings.Repeat("x", MaxPatternBytes+1) + `"}}}`, "it is 8193 bytes long (at most 8192)"},
		{typ + `"properties":{"a":{"maximum":1e999999999}}}`, `inputSchema: /properties/a/maximum: the number 1e999999999 is too long`},
		{`{"type":"object","description":"` + strings.Repeat("x", MaxSchemaBytes) + `"}`, `bytes long (at most 1048576)`},
		{strings.Repeat(`{"not":`, 200) + "1" + strings.Repeat("}", 200), `nested deeper than 100 levels`},
		{typ + `"x":[` + strings.Repeat("{},", MaxSchemaObjects) + `{}]}`, `inputSchema: has 5002 objects (at most 5000)`},
		{chainSchema(200), "more than 32 subschemas apply to the same value in a row"},
	} {
		_, err := CompileInputSchema([]byte(c.raw), "inputSchema")
		var se *SchemaError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s:\n%v", c.raw, err)
		case c.want != "" && (!errors.As(err, &se) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s:\ngot  %v\nwant %s", display.Clip(c.raw, 300), err, c.want)
		}
	}
}

// chainSchema returns n definitions, each referring to the next.
func chainSchema(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, n)
	return b.String()
}

func TestOutputSchemaNeedsNoObject(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"type":"array","items":{"type":"integer"}}`)
	if err := s.Validate([]byte(`[1,2]`), nil); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(`[1,"2"]`), nil); err == nil {
		t.Error("[1,\"2\"] validates")
	}
}

// The drafts differ in the meaning of an array of schemas under "items", which shows which
// draft is used.
func TestDrafts(t *testing.T) {
	t.Parallel()
	for schema, valid := range map[string]bool{
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`: false,
		`{"prefixItems":[{"type":"string"}],"items":false}`:                                                         false,
		`{"$schema":"http://json-schema.org/draft-07/schema#","prefixItems":[{"type":"string"}]}`:                   true,
	} {
		err := mustCompile(t, schema).Validate([]byte(`[1,2]`), nil)
		if (err == nil) != valid {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if _, err := CompileSchema([]byte(`{"items":[{"type":"string"}]}`), "s"); err == nil {
		t.Error("a list under items is accepted without $schema, where 2020-12 does not know it")
	}
}

func TestExactNumbers(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"type":"integer","maximum":9007199254740993}`)
	for value, want := range map[string]string{
		"9007199254740993":  "",
		"9007199254740994":  "/: got 9007199254740994, want at most 9007199254740993",
		"1.0":               "",
		"1e3":               "",
		"-1e400":            "",
		"0.5":               "/: got number 0.5, want integer",
		"1e99999999999":     "/: the number 1e99999999999 is too long",
		"1e-99999999999999": "/: the number 1e-99999999999999 is too long",
	} {
		err := s.Validate([]byte(value), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", value, err, want)
		}
	}
}

// Each of these would keep the validator busy for longer than the age of the universe:
// 32^15 and 2^200 evaluations.
func TestExponentialSchemas(t *testing.T) {
	t.Parallel()
	var defs strings.Builder
	defs.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 15 {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&defs, `"d%d":{"allOf":[%s%s]},`, i, strings.Repeat(ref+",", 31), ref)
	}
	schema := defs.String() + `"d15":{"type":"string"}}}`

	recursive := `{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`
	deep := strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200)
	for _, c := range []struct{ schema, value string }{{schema, `{"a":"x"}`}, {recursive, deep}} {
		s := mustCompile(t, c.schema)
		for _, check := range []func() error{
			func() error { return s.Validate([]byte(c.value), nil) },
			func() error { _, err := s.Coerce([]byte(c.value), nil); return err },
		} {
			if err := check(); !errors.As(err, new(*WorkError)) {
				t.Errorf("%s: got %v", display.Clip(c.schema, 100), err)
			}
		}
		if err := s.Validate([]byte(`{}`), nil); err != nil {
			t.Errorf("a small value: %v", err)
		}
	}
}

// Ordinary recursive schemas are accepted.
func TestRecursiveSchema(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"$ref":"#/$defs/json","$defs":{"json":{"anyOf":[
		{"type":["string","number","boolean","null"]},
		{"type":"array","items":{"$ref":"#/$defs/json"}},
		{"type":"object","additionalProperties":{"$ref":"#/$defs/json"}}]}}}`)
	value := strings.Repeat(`{"a":[1,`, 400) + "null" + strings.Repeat("]}", 400)
	if err := s.Validate([]byte(value), nil); err != nil {
		t.Error(err)
	}
	wide := "[" + strings.Repeat(`{"k":[1,2,"3"]},`, 19_000) + "1]"
	if err := s.Validate([]byte(wide), nil); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(strings.Repeat("[", 1001)+strings.Repeat("]", 1001)), nil); err == nil || !strings.Contains(err.Error(), "nested deeper than 1000 levels") {
		t.Errorf("a value of depth 1001: %v", err)
	}
}

func FuzzCompileSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		`{"$id":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/x"}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"#a","dependencies":{"a":["b"]}}`,
		`{"$dynamicRef":"#a","$defs":{"x":{"$dynamicAnchor":"a","not":{}}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":[{"$recursiveRef":"#"}]}`,
		`{"propertyNames":{"pattern":"^a"},"unevaluatedProperties":false,"contains":{"const":1},"uniqueItems":true}`,
		`{"$id":"%zz"}`, `{"$ref":"#/%zz"}`, `{"$anchor":"a","allOf":[{"$anchor":"a"}]}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[1,"2",{"b":null}],"b":1e3}`))
	}
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		s, err := CompileSchema(raw, "s")
		if err != nil {
			return
		}
		first := s.Validate(value, nil)
		if second := s.Validate(value, nil); fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("two validations differ:\n%v\n%v", first, second)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		mustCompile(b, issueSchema)
	}
}

// The longest accepted chain, applied at every level of the deepest value, does not
// overflow the library's stack.
func TestDeepestValidation(t *testing.T) {
	t.Parallel()
	schema := strings.Replace(chainSchema(maxChain-2), `{"type":"string"}`, `{"type":"object","additionalProperties":{"$ref":"#/$defs/d0"}}`, 1)
	s := mustCompile(t, schema)
	value := strings.Repeat(`{"a":`, MaxValueDepth) + "{}" + strings.Repeat("}", MaxValueDepth)
	value = value[len(`{"a":`) : len(value)-1]
	if err := s.Validate([]byte(value), nil); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(strings.Replace(value, "{}", `1`, 1)), nil); err == nil {
		t.Error("a wrong value validates")
	}
}

// TestUnknown checks values in which a part is not known: it matches whatever the schema
// says about it, and nothing else does.
func TestUnknown(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"n":{"type":"integer","minimum":3},"list":{"type":"array","uniqueItems":true,"items":{"enum":[1,2]}},
		"one":{"oneOf":[{"type":"string"},{"type":"null"}]},"d":{"type":"string","default":"x"}},"required":["n"],"additionalProperties":false}`
	s, err := CompileSchema([]byte(schema), "inputSchema")
	if err != nil {
		t.Fatal(err)
	}
	u := s.WithUnknown("?-")
	for value, valid := range map[string]bool{
		`{"n":"?-1"}`:                  true,
		`{"n":"?-1","one":"?-2"}`:      true,
		`{"n":3,"list":["?-1","?-1"]}`: true,
		`{"n":3,"list":["?-1",3]}`:     false,
		`{"n":"?"}`:                    false,
		`{"n":2,"one":"?-1"}`:          false,
		`{"one":"?-1"}`:                false,
		`{"n":1e1,"x":"?-1"}`:          false,
	} {
		got, err := u.Coerce([]byte(value), nil)
		if (err == nil) != valid || valid && string(got) != value {
			t.Errorf("%s: %s, %v", value, got, err)
		}
		if s.Validate([]byte(`{"n":"?-1"}`), nil) == nil {
			t.Error("the schema itself has changed")
		}
	}
	if got, err := u.Fill([]byte(`{"n":"?-1"}`), nil); err != nil || string(got) != `{"n":"?-1","d":"x"}` {
		t.Errorf("filled: %s, %v", got, err)
	}
}
