package tools

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const issueSchema = `{
  "type": "object",
  "properties": {
    "repo": {"type": "string", "minLength": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "ratio": {"type": "number"},
    "open": {"type": "boolean"},
    "since": {"type": ["integer", "null"]},
    "labels": {"type": "array", "items": {"type": "string"}},
    "filter": {"type": "object", "properties": {"author": {"type": "string"}, "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}}}},
    "page": {"enum": [1, 2, 3]},
    "mode": {"const": true},
    "a/b~c": {"type": "integer"},
    "either": {"anyOf": [{"type": "integer"}, {"type": "object"}]}
  },
  "required": ["repo"],
  "additionalProperties": false,
  "$defs": {"id": {"type": "integer"}}
}`

func TestCoerce(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, issueSchema)
	for _, c := range []struct{ name, in, want string }{
		{"nothing to do", ` {"repo" : "a", "limit":5.0, "ratio": 1e2} `, ` {"repo" : "a", "limit":5.0, "ratio": 1e2} `},
		{"string is right", `{"repo":"5"}`, `{"repo":"5"}`},
		{"integer", `{"limit":"5","repo":"a"}`, `{"limit":5,"repo":"a"}`},
		{"integer with fraction zero", `{"limit":"5.0","repo":"a"}`, `{"limit":5.0,"repo":"a"}`},
		{"number", `{"ratio":"5.5","repo":"a"}`, `{"ratio":5.5,"repo":"a"}`},
		{"exact number", `{"ratio":"12345678901234567890.123456789","repo":"a"}`, `{"ratio":12345678901234567890.123456789,"repo":"a"}`},
		{"null is left out", ` {"repo":"a", "limit":null,"labels" : null ,"open": true, "filter":null}`, `{"repo":"a","open": true}`},
		{"null that may be is kept", `{"repo":"a","since":null}`, `{"repo":"a","since":null}`},
		{"the others are kept", `{"repo":"a","since":null,"limit":null}`, `{"repo":"a","since":null}`},
		{"null and other mistakes", `{"repo":"a","limit":null,"ratio":"5"}`, `{"repo":"a","ratio":5}`},
		{"booleans", `{"open":"true","mode":"true","repo":"a"}`, `{"open":true,"mode":true,"repo":"a"}`},
		{"null", `{"since":"null","repo":"a"}`, `{"since":null,"repo":"a"}`},
		{"enum by value", `{"page":"2","repo":"a"}`, `{"page":2,"repo":"a"}`},
		{"number to string", `{"repo":12345678901234567890}`, `{"repo":"12345678901234567890"}`},
		{"literal to string", `{"repo":1.50E+2}`, `{"repo":"1.50E+2"}`},
		{"encoded array", `{"repo":"a","labels":"[\"x\", \"y\"]"}`, `{"repo":"a","labels":["x", "y"]}`},
		{"encoded, with more inside", `{"repo":"a","filter":" {\"author\":7, \"ids\":\"[1,\\\"2\\\"]\"}\n"}`, `{"repo":"a","filter":{"author":"7", "ids":[1,2]}}`},
		{"all encoded", `"{\"repo\":\"a\",\"limit\":\"3\"}"`, `{"repo":"a","limit":3}`},
		{"through anyOf", `{"repo":"a","either":"7"}`, `{"repo":"a","either":7}`},
		{"through anyOf, object", `{"repo":"a","either":"{}"}`, `{"repo":"a","either":{}}`},
		{"escaped pointer", `{"repo":"a","a/b~c":"1"}`, `{"repo":"a","a/b~c":1}`},
		{"rest untouched", "{ \"since\" : 10000000000000000000000,\n\t\"repo\":\"\\u00e9\\/\" , \"limit\" : \"5\" }", "{ \"since\" : 10000000000000000000000,\n\t\"repo\":\"\\u00e9\\/\" , \"limit\" : 5 }"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Coerce([]byte(c.in), nil)
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestCoerceRefuses(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, issueSchema)
	for in, want := range map[string]string{
		`{"repo":"a","limit":"5.5"}`:           `/limit: got string "5.5", want integer`,
		`{"repo":"a","limit":"05"}`:            `/limit: got string "05", want integer`,
		`{"repo":"a","limit":"+5"}`:            `/limit: got string "+5", want integer`,
		`{"repo":"a","limit":" 5"}`:            `/limit: got string " 5", want integer`,
		`{"repo":"a","limit":""}`:              `/limit: got string "", want integer`,
		`{"repo":"a","limit":"0x10"}`:          `/limit: got string "0x10", want integer`,
		`{"repo":"a","limit":true}`:            `/limit: got true, want integer`,
		`{"repo":"a","limit":"200"}`:           `/limit: got 200, want at most 100`,
		`{"repo":"a","ratio":"NaN"}`:           `/ratio: got string "NaN", want number`,
		`{"repo":"a","ratio":"1e999999"}`:      `/ratio: got string "1e999999", want number`,
		`{"repo":"a","open":"True"}`:           `/open: got string "True", want boolean`,
		`{"repo":"a","open":"yes"}`:            `/open: got string "yes", want boolean`,
		`{"repo":"a","open":1}`:                `/open: got number 1, want boolean`,
		`{"repo":true}`:                        `/repo: got true, want string`,
		`{"repo":null}`:                        `/repo: got null, want string`,
		`{"repo":"a","labels":"x,y"}`:          `/labels: got string "x,y", want array`,
		`{"repo":"a","labels":"{}"}`:           `/labels: got string "{}", want array`,
		`{"repo":"a","labels":"[true]"}`:       `/labels/0: got true, want string`,
		`{"repo":"a","filter":"{\"a\":1,"}`:    `/filter: got string "{\"a\":1,", want object`,
		`{"repo":"a","page":"4"}`:              `/page: got string "4", want one of 1, 2, 3`,
		`{"repo":"a","filter":{"ids":["x1"]}}`: `/filter/ids/0: got string "x1", want integer`,
		`{"limit":"x","rep":"a"}`:              "/: missing property \"repo\"\n/: unknown property \"rep\" (did you mean \"repo\"?)\n/limit: got string \"x\", want integer",
		`{"repo":"a","limit":"5","open":"no"}`: `/open: got string "no", want boolean`,
		`not json`:                             `/: not valid JSON: invalid character 'o' in literal null (expecting 'u') (at byte 1)`,
	} {
		got, err := s.Coerce([]byte(in), nil)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", in, got, err, want)
		}
	}
}

func TestCoerceContradiction(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"allOf":[{"type":"integer"},{"type":"string"}]}`)
	if got, err := s.Coerce([]byte(`"5"`), nil); err == nil {
		t.Errorf("got %s", got)
	}
}

// TestCoerceLeavesAttempts checks that errors below "contains" and "propertyNames" do not
// change the value.
func TestCoerceLeavesAttempts(t *testing.T) {
	t.Parallel()
	for schema, args := range map[string]string{
		`{"contains":{"type":"integer"}}`:                      `["5"]`,
		`{"type":"object","propertyNames":{"type":"integer"}}`: `{"5":1}`,
	} {
		if got, err := mustCompile(t, schema).Coerce([]byte(args), nil); err == nil {
			t.Errorf("%s: %s became %s", schema, args, got)
		}
	}
}

func TestCoerceValidIsSameSlice(t *testing.T) {
	t.Parallel()
	args := []byte(`{"repo":"a"}`)
	got, err := mustCompile(t, issueSchema).Coerce(args, nil)
	if err != nil || &got[0] != &args[0] {
		t.Errorf("got a copy (%v)", err)
	}
}

func FuzzCoerce(f *testing.F) {
	for _, args := range []string{
		`{"repo":"a","limit":"5"}`, `{"repo":5,"filter":"{\"ids\":\"[1]\"}","x":[]}`, `"{\"repo\":1}"`,
		`{"repo":"a","either":"[]","labels":[1,2.0,"x"]}`, `{"repo":"a","a/b~c":"1","open":"true","since":"null"}`,
	} {
		f.Add([]byte(issueSchema), []byte(args))
	}
	f.Add([]byte(`{"items":{"type":"integer"},"properties":{"":{"type":"string"}}}`), []byte(`["1",2]`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		s, err := CompileSchema(schema, "s")
		if err != nil {
			return
		}
		before := bytes.Clone(args)
		got, err := s.Coerce(args, nil)
		if !bytes.Equal(args, before) {
			t.Fatal("the arguments were written to")
		}
		if err != nil {
			return
		}
		if err := s.ValidateArguments(got, nil); err != nil {
			t.Fatalf("%s became %s, which does not validate: %v", args, got, err)
		}
		if s.ValidateArguments(args, nil) == nil {
			if !bytes.Equal(got, args) {
				t.Fatalf("valid %s became %s", args, got)
			}
			return
		}
		checkUntouched(t, args, got)
	})
}

// checkUntouched compares two values: where the types are the same, so must be the bytes,
// at all levels; where they differ, one must be the text of the other.
func checkUntouched(t *testing.T, a, b json.RawMessage) {
	t.Helper()
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	switch {
	case bytes.Equal(a, b):
	case a[0] == '{' && b[0] == '{':
		x, errX := readObject(a)
		y, errY := readObject(b)
		if errX != nil || errY != nil || len(x) != len(y) {
			t.Fatalf("%s became %s", a, b)
		}
		for i := range x {
			if x[i].Name != y[i].Name {
				t.Fatalf("order of %s became %s", a, b)
			}
			checkUntouched(t, x[i].Value, y[i].Value)
		}
	case a[0] == '[' && b[0] == '[':
		var x, y []json.RawMessage
		if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(x) != len(y) {
			t.Fatalf("%s became %s", a, b)
		}
		for i := range x {
			checkUntouched(t, x[i], y[i])
		}
	case a[0] == '"':
		var text string
		if err := json.Unmarshal(a, &text); err != nil || b[0] == '"' {
			t.Fatalf("string %s became %s", a, b)
		}
		checkUntouched(t, json.RawMessage(text), b)
	case string(b) != `"`+string(a)+`"`:
		t.Fatalf("%s became %s", a, b)
	}
}

func BenchmarkCoerce(b *testing.B) {
	s := mustCompile(b, issueSchema)
	many := `{"repo":"a","labels":[` + strings.Repeat(`"label with some text",`, 2000) + `"x"]}`
	for name, args := range map[string]string{
		"valid":   `{"repo":"a/b","limit":5,"open":true,"labels":["x","y"]}`,
		"coerced": `{"repo":"a/b","limit":"5","open":"true","labels":"[\"x\",\"y\"]"}`,
		"invalid": `{"repos":"a/b","limit":"x"}`,
		"48KB":    many,
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(args)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Coerce(raw, nil); (err != nil) != (name == "invalid") {
					b.Fatal(err)
				}
			}
		})
	}
}
