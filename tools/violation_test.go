package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestViolations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, schema, value string
		want                []string
	}{
		{"type", `{"properties":{"limit":{"type":"integer"}}}`, `{"limit":"abc"}`,
			[]string{`/limit: got string "abc", want integer`}},
		{"types", `{"type":["integer","null"]}`, `true`, []string{`/: got true, want null or integer`}},
		{"long string", `{"type":"null"}`, `"` + strings.Repeat("x", 100) + `"`,
			[]string{`/: got string "` + strings.Repeat("x", 60) + `…", want null`}},
		{"required", `{"required":["repo","owner"]}`, `{}`,
			[]string{`/: missing property "owner"`, `/: missing property "repo"`}},
		{"required, near", `{"properties":{"area":{},"day":{}},"required":["area","day"]}`, `{"aria":1,"when":2}`,
			[]string{`/: missing property "area" (got "aria": did you mean "area"?)`, `/: missing property "day" (got "aria", "when", which the schema does not name)`}},
		{"required, known besides", `{"properties":{"area":{},"arena":{}},"required":["area"]}`, `{"arena":1}`, []string{`/: missing property "area"`}},
		{"required, closed", `{"properties":{"area":{}},"required":["area"],"additionalProperties":false}`, `{"aria":1}`,
			[]string{`/: missing property "area"`, `/: unknown property "aria" (did you mean "area"?)`}},
		{"required, named elsewhere", `{"required":["area"],"properties":{"a":{}}}`, `{"aria":1}`, []string{`/: missing property "area"`}},
		{"unknown near", `{"properties":{"limit":{},"repo":{}},"additionalProperties":false}`, `{"limti":1}`,
			[]string{`/: unknown property "limti" (did you mean "limit"?)`}},
		{"unknown far", `{"properties":{"limit":{},"repo":{}},"additionalProperties":false}`, `{"z":1,"x":1}`,
			[]string{`/: unknown property "x" (known: limit, repo)`, `/: unknown property "z" (known: limit, repo)`}},
		{"unknown, none known", `{"additionalProperties":false}`, `{"z":1}`, []string{`/: unknown property "z"`}},
		{"unevaluated", `{"allOf":[{"properties":{"b":{}}}],"properties":{"color":{}},"unevaluatedProperties":false}`, `{"colour":1,"b":2}`,
			[]string{`/: unknown property "colour" (did you mean "color"?)`}},
		{"unevaluated below", `{"properties":{"in":{"properties":{"color":{}},"unevaluatedProperties":false}}}`, `{"in":{"colour":1}}`,
			[]string{`/in: unknown property "colour" (did you mean "color"?)`}},
		{"false", `{"properties":{"a":false}}`, `{"a":1}`, []string{`/a: must not be given`}},
		{"enum", `{"enum":["open","closed"]}`, `"opne"`, []string{`/: got string "opne", want one of "open", "closed" (did you mean "open"?)`}},
		{"enum of one", `{"enum":[5]}`, `6`, []string{`/: got number 6, want 5`}},
		{"const", `{"const":{"a":1}}`, `[]`, []string{`/: got array, want {"a":1}`}},
		{"array order", `{"items":{"type":"null"}}`, `[null,1,null,1,1,1,1,1,1,1,1]`,
			[]string{`/1: got number 1, want null`, `/3: got number 1, want null`, `/4: got number 1, want null`, `/5: got number 1, want null`, `/6: got number 1, want null`,
				`/7: got number 1, want null`, `/8: got number 1, want null`, `/9: got number 1, want null`, `/10: got number 1, want null`}},
		{"pointer escapes", `{"additionalProperties":{"type":"null"}}`, `{"a/b~c":1,"":2}`,
			[]string{`/: got number 2, want null`, `/a~1b~0c: got number 1, want null`}},
		{"minimum", `{"minimum":0.1}`, `0.05`, []string{`/: got 0.05, want at least 0.1`}},
		{"maximum exact", `{"maximum":18446744073709551616}`, `18446744073709551617`, []string{`/: got 18446744073709551617, want at most 18446744073709551616`}},
		{"exclusive", `{"exclusiveMinimum":1,"exclusiveMaximum":1}`, `1`, []string{`/: got 1, want less than 1`, `/: got 1, want more than 1`}},
		{"multipleOf", `{"multipleOf":0.5}`, `0.7`, []string{`/: got 0.7, want a multiple of 0.5`}},
		{"lengths", `{"minLength":3,"pattern":"^a"}`, `"b"`, []string{`/: got 1 characters, want at least 3`, `/: got string "b", want a match of ^a`}},
		{"max length", `{"maxLength":1}`, `"äö"`, []string{`/: got 2 characters, want at most 1`}},
		{"items", `{"minItems":2,"contains":{"type":"string"}}`, `[1]`, []string{`/: got 1 items, want at least 2`, `/: no items match contains schema`}},
		{"unique", `{"uniqueItems":true,"maxItems":1}`, `[1,1.0]`, []string{`/: got 2 items, want at most 1`, `/: items 0 and 1 are equal, want all different`}},
		{"properties", `{"minProperties":2}`, `{"a":1}`, []string{`/: got 1 properties, want at least 2`}},
		{"max properties", `{"maxProperties":0}`, `{"a":1}`, []string{`/: got 1 properties, want at most 0`}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`/: missing property "b" (needed with "a")`}},
		{"dependencies", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, []string{`/: missing property "b" (needed with "a")`}},
		{"names", `{"properties":{"a":{"propertyNames":{"pattern":"^x"}},"b":{"type":"null"}}}`, `{"a":{"y":1},"b":2}`,
			[]string{`/a: property name "y" is not allowed: got string "y", want a match of ^x`, `/b: got number 2, want null`}},
		{"not", `{"not":{"type":"string"}}`, `"a"`, []string{`/: got string "a", which "not" rules out`}},
		{"oneOf both", `{"oneOf":[{"type":"string"},{"minLength":1}]}`, `"a"`, []string{`/: matches alternatives 1 and 2 of "oneOf", want exactly one`}},
		{"anyOf types", `{"anyOf":[{"type":"string"},{"type":["null","string"]},{"type":"array"}]}`, `5`, []string{`/: got number 5, want string or null or array`}},
		{"anyOf by type", `{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`, `{}`, []string{`/: missing property "a"`}},
		{"oneOf by kind", `{"oneOf":[{"properties":{"kind":{"const":"a"},"n":{"type":"integer"}}},{"properties":{"kind":{"const":"b"},"n":{"type":"string"}}}]}`,
			`{"kind":"a","n":null}`, []string{`/n: got null, want integer`}},
		{"anyOf lacking", `{"anyOf":[{"required":["a"]},{"required":["b"],"properties":{"c":{"type":"null"}}}]}`, `{"c":1}`,
			[]string{`/: matches none of 2 alternatives: missing property "a"; or missing property "b", /c: got number 1, want null`}},
		{"anyOf above", `{"unevaluatedProperties":false,"properties":{"a":{"anyOf":[{"$ref":"#/unevaluatedProperties"},{"minimum":5}]}}}`, `{"a":1}`,
			[]string{`/a: matches none of 2 alternatives: must not be given; or got 1, want at least 5`}},
		{"anyOf below", `{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/x/unevaluatedProperties"},{"minimum":5}]}},"$defs":{"x":{"unevaluatedProperties":false}}}`, `{"a":1}`,
			[]string{`/a: matches none of 2 alternatives: unknown property "a"; or got 1, want at least 5`}},
		{"format", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"ipv4"}`, `"x"`, []string{`/: got string "x", want format ipv4 (expected four decimals)`}},
		{"tuple", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false}`, `[1,2,3]`, []string{`/: the last 2 items are too many`}},
		{"same twice", `{"allOf":[{"type":"null"},{"type":"null"}]}`, `1`, []string{`/: got number 1, want null`}},
		{"through ref", `{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`, `{"a":"x"}`, []string{`/a: got string "x", want integer`}},
		{"no JSON", `{}`, `{"a":`, []string{`/a: not valid JSON: unexpected EOF (at byte 5)`}},
		{"empty", `{}`, ``, []string{`/: not valid JSON: it is empty`}},
		{"two values", `{}`, `1 2`, []string{`/: not valid JSON: more than one value`}},
		{"duplicate name", `{}`, `{"a":1,"a":2}`, []string{`/a: not valid JSON: duplicate object member name (at byte 7)`}},
		{"invalid UTF-8", `{}`, "\"\xff\"", []string{`/: not valid JSON: invalid UTF-8 (at byte 1)`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustCompile(t, c.schema)
			for range 5 { // maps iterate in a different order each time
				var ve *ValidationError
				if err := s.Validate([]byte(c.value), nil); !errors.As(err, &ve) {
					t.Fatalf("got %v", err)
				}
				var got []string
				for _, v := range ve.Violations {
					got = append(got, v.String())
				}
				if !slices.Equal(got, c.want) {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
			}
		})
	}
}

func TestValidationErrorIsShort(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items":{"type":"null"}}`)
	err := s.Validate([]byte("["+strings.Repeat("1,", 99)+"1]"), nil)
	var ve *ValidationError
	if !errors.As(err, &ve) || len(ve.Violations) != 100 {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); strings.Count(text, "\n") != 20 || !strings.HasSuffix(text, "\nand 80 more") {
		t.Errorf("got %q", text)
	}
}

func TestRootPointer(t *testing.T) {
	t.Parallel()
	err := mustCompile(t, `{"type":"object"}`).Validate([]byte("1"), nil)
	var ve *ValidationError
	if !errors.As(err, &ve) || fmt.Sprint(ve.Violations) != `[/: got number 1, want object]` || ve.Violations[0].Pointer != "" {
		t.Errorf("got %v", err)
	}
}
