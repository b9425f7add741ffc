package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// shapeWith returns the shape of arguments of a tool with that inputSchema.
func shapeWith(t testing.TB, schema, arguments string) string {
	t.Helper()
	raw, err := canonical([]byte(arguments), true)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := shapeOf(raw, []byte(`{"name":"t","inputSchema":`+schema+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return string(shape)
}

// TestShape checks which values a shape keeps, with schemas as zod 3 and 4 and pydantic 2 write them,
// and others.
func TestShape(t *testing.T) {
	for _, tt := range []struct{ name, schema, arguments, want string }{
		{"texts and numbers", `{"type":"object","properties":{"a":{"type":"string","title":"A","minLength":1},"n":{"type":"integer","minimum":1,"maximum":5},"f":{"type":"number"}},"required":["a"],"additionalProperties":false,"title":"args"}`,
			`{"a":"x","n":3,"f":1.5}`, `{"a":string,"f":number,"n":number,}`},
		{"another type", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":3}`, `{"a":3,}`},
		{"no schema", `{}`, `{"a":"x"}`, `{"a":"x",}`},
		{"not declared", `{"type":"object","properties":{"b":{"type":"string"}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"of any type", `{"type":"object","properties":{"a":{},"b":true}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":"y",}`},
		{"literals", `{"type":"object","properties":{"a":{"type":["string","boolean","null"]}}}`, `{"a":true}`, `{"a":true,}`},

		{"zod 4: enum", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"repo":{"type":"string"},"method":{"type":"string","enum":["merge","squash","delete_branch"]},"again":{"type":"string","enum":["merge","squash","delete_branch"]}},"required":["repo","method"],"additionalProperties":false}`,
			`{"repo":"a","method":"squash","again":"merge"}`, `{"again":"merge","method":"squash","repo":string,}`},
		{"zod 4: literal", `{"type":"object","properties":{"repo":{"type":"string"},"action":{"type":"string","const":"squash"}},"required":["repo","action"],"additionalProperties":false}`,
			`{"repo":"a","action":"squash"}`, `{"action":"squash","repo":string,}`},
		{"zod 4: discriminated union", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"op":{"oneOf":[{"type":"object","properties":{"kind":{"type":"string","const":"comment"},"body":{"type":"string"}},"required":["kind","body"],"additionalProperties":false},{"type":"object","properties":{"kind":{"type":"string","const":"merge"},"method":{"type":"string","enum":["merge","squash","delete_branch"]}},"required":["kind","method"],"additionalProperties":false}]}},"required":["op"],"additionalProperties":false}`,
			`{"op":{"kind":"merge","method":"squash","body":"b"}}`, `{"op":{"body":string,"kind":"merge","method":"squash",},}`},
		{"zod 4: optional", `{"type":"object","properties":{"repo":{"type":["string","null"]},"method":{"default":"merge","anyOf":[{"type":"string","enum":["merge","squash","delete_branch"]},{"type":"null"}]}},"required":["method"],"additionalProperties":false}`,
			`{"repo":"a","method":"squash"}`, `{"method":"squash","repo":string,}`},
		{"zod 4: literals", `{"type":"object","properties":{"m":{"anyOf":[{"type":"string","const":"merge"},{"type":"string","const":"squash"},{"type":"number"}]},"n":{"anyOf":[{"type":"string","const":"merge"},{"type":"number"}]}},"required":["m"],"additionalProperties":false}`,
			`{"m":"squash","n":7}`, `{"m":"squash","n":number,}`},
		{"zod 4: record", `{"type":"object","properties":{"labels":{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"string"}}},"required":["labels"],"additionalProperties":false}`,
			`{"labels":{"a":"x"}}`, `{"labels":{"a":string,},}`},
		{"zod 4: tuple", `{"type":"object","properties":{"t":{"type":"array","prefixItems":[{"type":"string","enum":["merge","squash"]},{"type":"string"}],"items":{"type":"number"},"minItems":2}},"required":["t"],"additionalProperties":false}`,
			`{"t":["squash","x",1,2]}`, `{"t":["squash",number,string,],}`},
		{"zod 4: recursion", `{"type":"object","properties":{"name":{"type":"string"},"method":{"type":"string","enum":["merge","squash"]},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name","method","children"],"additionalProperties":false}`,
			`{"name":"a","method":"merge","children":[{"name":"b","method":"squash","children":[]}]}`, `{"children":[{"children":[],"method":"squash","name":string,},],"method":"merge","name":string,}`},
		{"zod 4: a pattern", `{"type":"object","properties":{"id":{"type":"string","format":"uuid","pattern":"^([0-9a-f-]{36})$"}}}`, `{"id":"u"}`, `{"id":"u",}`},
		{"zod 3: reference to a property", `{"type":"object","properties":{"repo":{"type":"string"},"method":{"type":"string","enum":["merge","squash"]},"again":{"$ref":"#/properties/method"},"other":{"$ref":"#/properties/repo"}},"required":["repo","method"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`,
			`{"again":"squash","other":"x"}`, `{"again":"squash","other":string,}`},
		{"zod 3: reference into a list", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"b":{"$ref":"#/properties/a/anyOf/0"}}}`, `{"b":"x"}`, `{"b":"x",}`},
		{"zod 3: union", `{"type":"object","properties":{"op":{"anyOf":[{"type":"object","properties":{"kind":{"type":"string","const":"comment"},"body":{"type":"string"}},"required":["kind","body"],"additionalProperties":false},{"type":"object","properties":{"kind":{"type":"string","const":"merge"},"method":{"type":"string","enum":["merge","squash"]}},"required":["kind","method"],"additionalProperties":false}]}}}`,
			`{"op":{"kind":"comment","body":"b"}}`, `{"op":{"body":string,"kind":"comment",},}`},
		{"zod 3: intersection", `{"type":"object","properties":{"x":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"m":{"type":"string","enum":["merge","squash"]}},"required":["m"]}]}}}`,
			`{"x":{"a":"y","m":"squash"}}`, `{"x":{"a":string,"m":"squash",},}`},
		{"zod 3: tuple", `{"type":"object","properties":{"t":{"type":"array","minItems":2,"items":[{"type":"string","enum":["merge","squash"]},{"type":"string"}],"additionalItems":{"type":"number"}}}}`,
			`{"t":["squash","x",1]}`, `{"t":["squash",number,string,],}`},
		{"zod 3: optional in a union", `{"type":"object","properties":{"a":{"anyOf":[{"not":{}},{"type":"string"}]},"b":{"anyOf":[{"not":{}},{"type":"string","enum":["x"]}]}}}`,
			`{"a":"x","b":"x"}`, `{"a":string,"b":"x",}`},

		{"pydantic: enum", `{"$defs":{"Method":{"enum":["merge","squash","delete_branch"],"title":"Method","type":"string"}},"properties":{"repo":{"title":"Repo","type":"string"},"method":{"$ref":"#/$defs/Method"}},"required":["repo","method"],"title":"argsArguments","type":"object"}`,
			`{"repo":"a","method":"squash"}`, `{"method":"squash","repo":string,}`},
		{"pydantic: enum with a default", `{"$defs":{"Method":{"enum":["merge","squash"],"title":"Method","type":"string"}},"properties":{"method":{"allOf":[{"$ref":"#/$defs/Method"}],"default":"merge"},"other":{"$ref":"#/$defs/Method","default":"merge","description":"d"}},"title":"args","type":"object"}`,
			`{"method":"squash","other":"squash"}`, `{"method":"squash","other":"squash",}`},
		{"pydantic: enum of numbers", `{"$defs":{"P":{"enum":[1,2,3],"title":"P","type":"integer"}},"properties":{"p":{"$ref":"#/$defs/P"},"q":{"title":"Q","type":"integer"}},"type":"object"}`,
			`{"p":2,"q":2}`, `{"p":2,"q":number,}`},
		{"pydantic: Literal", `{"properties":{"one":{"const":"squash","title":"One","type":"string"},"many":{"enum":["merge","squash"],"title":"Many","type":"string"},"before":{"const":"squash","enum":["squash"],"title":"Before","type":"string"}},"type":"object"}`,
			`{"one":"squash","many":"merge","before":"squash"}`, `{"before":"squash","many":"merge","one":"squash",}`},
		{"pydantic: Optional", `{"$defs":{"Method":{"enum":["merge","squash"],"title":"Method","type":"string"}},"properties":{"method":{"anyOf":[{"$ref":"#/$defs/Method"},{"type":"null"}],"default":null},"literal":{"anyOf":[{"enum":["a","b"],"type":"string"},{"type":"null"}],"default":null,"title":"Literal"},"repo":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"Repo"}},"type":"object"}`,
			`{"method":"squash","literal":"a","repo":"r"}`, `{"literal":"a","method":"squash","repo":string,}`},
		{"pydantic: discriminated union", `{"$defs":{"Comment":{"properties":{"kind":{"const":"comment","title":"Kind","type":"string"},"body":{"title":"Body","type":"string"}},"required":["kind","body"],"title":"Comment","type":"object"},"Merge":{"properties":{"kind":{"const":"merge","title":"Kind","type":"string"},"method":{"enum":["merge","squash","delete_branch"],"title":"Method","type":"string"}},"required":["kind","method"],"title":"Merge","type":"object"}},"properties":{"op":{"discriminator":{"mapping":{"comment":"#/$defs/Comment","merge":"#/$defs/Merge"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Comment"},{"$ref":"#/$defs/Merge"}],"title":"Op"}},"required":["op"],"title":"args","type":"object"}`,
			`{"op":{"kind":"merge","method":"squash"}}`, `{"op":{"kind":"merge","method":"squash",},}`},
		{"pydantic: list of a union", `{"$defs":{"A":{"properties":{"kind":{"const":"a","type":"string"},"n":{"type":"integer"}},"type":"object"},"B":{"properties":{"kind":{"const":"b","type":"string"},"t":{"type":"string"}},"type":"object"}},"properties":{"ops":{"items":{"discriminator":{"mapping":{"a":"#/$defs/A","b":"#/$defs/B"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}]},"type":"array"}},"type":"object"}`,
			`{"ops":[{"kind":"a","n":1},{"kind":"b","t":"x"},{"kind":"a","n":2}]}`, `{"ops":[{"kind":"a","n":number,},{"kind":"b","t":string,},],}`},
		{"pydantic: recursion", `{"$defs":{"Node":{"properties":{"name":{"type":"string"},"how":{"enum":["x","y"],"type":"string"},"next":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}],"default":null}},"type":"object"}},"properties":{"node":{"$ref":"#/$defs/Node"}},"type":"object"}`,
			`{"node":{"name":"a","how":"x","next":{"name":"b","how":"y","next":null}}}`, `{"node":{"how":"x","name":string,"next":{"how":"y","name":string,"next":null,},},}`},
		{"pydantic: the model is a reference", `{"$defs":{"Args":{"properties":{"a":{"type":"string"},"m":{"enum":["x"],"type":"string"}},"type":"object"}},"$ref":"#/$defs/Args"}`,
			`{"a":"b","m":"x"}`, `{"a":string,"m":"x",}`},
		{"pydantic: constrained keys", `{"properties":{"d":{"patternProperties":{"^x-":{"type":"string"}},"title":"D","type":"object"},"e":{"additionalProperties":{"type":"string"},"type":"object"}},"type":"object"}`,
			`{"d":{"x-a":"v","method":"squash"},"e":{"k":"v"}}`, `{"d":{"method":"squash","x-a":"v",},"e":{"k":string,},}`},
		{"pydantic: tuple", `{"properties":{"t":{"maxItems":2,"minItems":2,"prefixItems":[{"enum":["a","b"],"type":"string"},{"type":"integer"}],"title":"T","type":"array"}},"type":"object"}`,
			`{"t":["a",1]}`, `{"t":["a",number,],}`},
		{"pydantic: Any", `{"properties":{"x":{"title":"X"}},"type":"object"}`, `{"x":{"a":"b"}}`, `{"x":{"a":"b",},}`},

		{"patterns and a choice of a declared member", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"patternProperties":{"^a":{"enum":["x"]}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"additional members with patterns", `{"type":"object","patternProperties":{"^a":{"enum":["x"]}},"additionalProperties":{"type":"string"}}`, `{"b":"x"}`, `{"b":"x",}`},
		{"if, then, else", `{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"string"},"w":{"type":"string"},"z":{"type":"string"}},"if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"v":{"enum":["x"]}}},"else":{"properties":{"w":{"const":"y"}}}}`,
			`{"k":"b","v":"1","w":"2","z":"3"}`, `{"k":"b","v":"1","w":"2","z":string,}`},
		{"a type in if alone", `{"type":"object","properties":{"k":{}},"if":{"properties":{"k":{"type":"string"}}}}`, `{"k":"b"}`, `{"k":"b",}`},
		{"not", `{"type":"object","properties":{"a":{"type":"string","not":{"const":"x"}},"b":{"not":{"type":"string"}},"c":{"type":"string","not":{"type":"number"}}}}`,
			`{"a":"v","b":"w","c":"z"}`, `{"a":"v","b":"w","c":string,}`},
		{"dependentSchemas", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"dependentSchemas":{"a":{"properties":{"b":{"enum":["x"]}}}}}`, `{"a":"1","b":"x"}`, `{"a":string,"b":"x",}`},
		{"contains", `{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"contains":{"const":"x"}},"m":{"type":"array","contains":{"type":"string"}}}}`,
			`{"l":["a"],"m":["a"]}`, `{"l":["a",],"m":["a",],}`},
		{"what is not evaluated", `{"type":"object","unevaluatedProperties":{"type":"string"}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"$dynamicRef", `{"type":"object","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"},"b":{"type":"string"}}}`, `{"a":{"c":"x"},"b":"y"}`, `{"a":{"c":"x",},"b":string,}`},
		{"an anchor", `{"type":"object","$defs":{"m":{"$anchor":"m","type":"string"}},"properties":{"a":{"$ref":"#m"}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"a reference to nothing", `{"type":"object","properties":{"a":{"type":"string","$ref":"#/$defs/none"}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"a reference elsewhere", `{"type":"object","properties":{"a":{"type":"string","$ref":"https://example.com/x"}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"a reference to itself", `{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"type":"string","$ref":"#/properties/b"}}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":string,}`},
		{"another resource", `{"type":"object","$defs":{"m":{"enum":["a"]}},"properties":{"a":{"$id":"https://example.com/","$defs":{"m":{"type":"string"}},"$ref":"#/$defs/m"}}}`, `{"a":"x"}`, `{"a":"x",}`},
		{"an unknown keyword", `{"type":"object","properties":{"a":{"type":"string","x-values":["x","y"]},"b":{"type":"string"}}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":string,}`},
		{"an unknown keyword of an object", `{"type":"object","properties":{"o":{"type":"object","selectCases":{},"properties":{"b":{"type":"string"}}}}}`, `{"o":{"b":"y"}}`, `{"o":{"b":"y",},}`},
		{"an unknown type", `{"type":"object","properties":{"a":{"type":"text"},"b":{"type":["string","text"]}}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":"y",}`},
		{"a keyword twice", `{"type":"object","properties":{"a":{"enum":["x"],"type":"string","enum":["y"]},"b":{"type":"string","type":"number"}}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":"y",}`},
		{"objects as choices", `{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"string"}},"enum":[{"a":"x"},{"a":"y"}]}}}`, `{"o":{"a":"x"}}`, `{"o":{"a":"x",},}`},
		{"lists as choices", `{"type":"object","properties":{"l":{"items":{"type":"string"},"const":["x"]}}}`, `{"l":["x"]}`, `{"l":["x",],}`},
		{"a choice of another type", `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer","enum":[1,2]},{"type":"string"}]}}}`, `{"a":"x"}`, `{"a":string,}`},
		{"no schema at all", `17`, `{"a":"x"}`, `{"a":"x",}`},
		{"a schema that is no object", `{"type":"object","properties":{"a":"string","b":["string"],"c":null}}`, `{"a":"x","b":"y","c":"z"}`, `{"a":"x","b":"y","c":"z",}`},
	} {
		if got := shapeWith(t, tt.schema, tt.arguments); got != tt.want {
			t.Errorf("%s:\n%s\n%s\nhas the shape %s\nwant          %s", tt.name, tt.schema, tt.arguments, got, tt.want)
		}
	}
	if shape, err := shapeOf([]byte(`{"a":"x"}`), nil); err != nil || string(shape) != `{"a":"x",}` {
		t.Errorf("without a definition: %s, %v", shape, err)
	}
}

// TestShapeOfDeepSchemas checks that what is looked at of a schema is bounded, and that values are
// kept beyond that.
func TestShapeOfDeepSchemas(t *testing.T) {
	const leaf = `{"type":"string"}`
	object := func(s string) string { return `{"type":"object","properties":{"a":` + s + `}}` }
	wide := strings.TrimSuffix(strings.Repeat(leaf+",", 2*maxSchemas), ",")
	bomb := `{"type":"object","$defs":{"x0":` + leaf
	for i := range 25 {
		bomb += fmt.Sprintf(`,"x%d":{"anyOf":[{"$ref":"#/$defs/x%d"},{"$ref":"#/$defs/x%d"}]}`, i+1, i, i)
	}
	for name, schema := range map[string]string{
		"deep": object(strings.Repeat(`{"allOf":[`, 1000) + leaf + strings.Repeat(`]}`, 1000)),
		"wide": object(`{"anyOf":[` + wide + `]}`),
		"long": object(`{"type":"string","description":"` + strings.Repeat("x", maxSchemaWork) + `"}`),
	} {
		if got := shapeWith(t, schema, `{"a":"x"}`); got != `{"a":"x",}` {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	if got := shapeWith(t, bomb+`},"properties":{"a":{"$ref":"#/$defs/x25"}}}`, `{"a":"x"}`); got != `{"a":string,}` { // each is read once
		t.Errorf("references: %s", got)
	}
	rows := `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"b":"x"},`, 5_000), ",") + `]}`
	if got := shapeWith(t, object(`{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}}`), rows); got != `{"a":[{"b":string,},],}` {
		t.Errorf("rows: %.200s", got)
	}
}

// layers wrap a schema so that the value at a place is still one of the inner schema.
var layers = []func(inner string, defs map[string]string) string{
	func(inner string, defs map[string]string) string {
		name := fmt.Sprintf("d%d", len(defs))
		defs[name] = inner
		return `{"$ref":"#/$defs/` + name + `"}`
	},
	func(inner string, _ map[string]string) string {
		return `{"anyOf":[` + inner + `,{"type":"null"}]}`
	},
	func(inner string, _ map[string]string) string {
		return `{"oneOf":[{"type":"integer"},` + inner + `]}`
	},
	func(inner string, _ map[string]string) string {
		return `{"allOf":[` + inner + `],"title":"t"}`
	},
	func(inner string, _ map[string]string) string {
		return `{"if":{"type":"null"},"then":true,"else":` + inner + `}`
	},
	func(inner string, _ map[string]string) string {
		return `{"anyOf":[{"type":"string","maxLength":3},` + inner + `]}`
	},
	func(inner string, _ map[string]string) string {
		return `{"type":["string","null"],"allOf":[` + inner + `,{"minLength":1}],"default":"x"}`
	},
}

// places put a schema, and a value, into something.
var places = []func(schema, value string) (string, string){
	func(s, v string) (string, string) {
		return `{"type":"object","properties":{"m":` + s + `}}`, `{"m":` + v + `}`
	},
	func(s, v string) (string, string) {
		return `{"type":"object","additionalProperties":` + s + `}`, `{"m":` + v + `}`
	},
	func(s, v string) (string, string) { return `{"type":"array","items":` + s + `}`, `[` + v + `]` },
	func(s, v string) (string, string) {
		return `{"type":"array","prefixItems":[{"type":"string"},` + s + `]}`, `["x",` + v + `]`
	},
	func(s, v string) (string, string) {
		return `{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"m":` + s + `}},{"type":"object","properties":{"k":{"const":"b"}}}],"discriminator":{"propertyName":"k"}}`,
			`{"k":"a","m":` + v + `}`
	},
	func(s, v string) (string, string) {
		return `{"anyOf":[{"type":"null"},{"type":"object","properties":{"m":` + s + `}}]}`, `{"m":` + v + `}`
	},
}

// TestShapeProperty wraps schemas at random: a choice is kept however it is wrapped, and a text that
// is free is not.
func TestShapeProperty(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 17))
		for leaf, free := range map[string]bool{
			`{"type":"string"}`: true, `{"enum":["squash","delete_branch"]}`: false, `{"type":"string","const":"squash"}`: false,
			`{"type":"string","pattern":"^(squash|delete_branch)$"}`: false, `{"type":"string","unknown":1}`: false,
		} {
			defs := map[string]string{}
			schema := leaf
			for range r.IntN(4) {
				schema = layers[r.IntN(len(layers))](schema, defs)
			}
			values := [2]string{`"squash"`, `"delete_branch"`}
			for range 1 + r.IntN(3) {
				put := places[r.IntN(len(places))]
				_, values[0] = put(schema, values[0])
				schema, values[1] = put(schema, values[1])
				for range r.IntN(2) {
					name := fmt.Sprintf("d%d", len(defs))
					defs[name] = schema
					schema = `{"$ref":"#/$defs/` + name + `"}`
				}
			}
			list := `"none":true`
			for name, of := range defs {
				list += fmt.Sprintf(`,%q:%s`, name, of)
			}
			whole := `{"type":"object","$defs":{` + list + `},"properties":{"top":` + schema + `}}`
			a, b := shapeWith(t, whole, `{"top":`+values[0]+`}`), shapeWith(t, whole, `{"top":`+values[1]+`}`)
			if (a == b) != free {
				t.Fatalf("seed %d, %s: %s and %s\n%s", seed, leaf, a, b, whole)
			}
		}
	}
}

// FuzzShape checks that a schema which is not understood as a whole keeps all values, and that no schema
// makes the program fail.
func FuzzShape(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"value","b":[1,{"c":"d"}]}`)
	f.Add(`{"anyOf":[{"$ref":"#/anyOf/1"},{"$ref":"#"}]}`, `{"a":"value"}`)
	f.Add(`{"items":[],"prefixItems":[true],"type":["array"],"not":{}}`, `{"a":["value"]}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		raw, err := canonical([]byte(arguments), true)
		if err != nil || len(raw) == 0 || raw[0] != '{' || !json.Valid([]byte(schema)) {
			return
		}
		if _, err := shapeOf(raw, []byte(`{"inputSchema":`+schema+`}`)); err != nil {
			t.Skip(err)
		}
		shape, err := shapeOf(raw, []byte(`{"inputSchema":{"allOf":[`+schema+`],"unknown":1}}`))
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		for {
			tok, err := d.Token()
			if err != nil {
				return
			}
			want := ""
			switch v := tok.(type) {
			case json.Number:
				want = v.String()
			case string:
				want = v
				if strings.ContainsAny(v, "\"\\<>&\u2028\u2029\ufffd") || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					continue // it is written in another way
				}
			}
			if !bytes.Contains(shape, []byte(want)) {
				t.Fatalf("%s with %s has the shape %s, without %s", raw, schema, shape, want)
			}
		}
	})
}
