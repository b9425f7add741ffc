package tools

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// list returns a JSON array of n items.
func list(n int, item func(i int) string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	b.WriteByte(']')
	return b.String()
}

// dict returns a JSON object of n members.
func dict(n int, member func(i int) (name, value string)) string {
	members := list(n, func(i int) string {
		name, value := member(i)
		return `"` + name + `":` + value
	})
	return "{" + members[1:len(members)-1] + "}"
}

func always(text string) func(int) string { return func(int) string { return text } }

const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`

// hostileCase is a schema and a value that are within all size limits, and take very long
// to validate.
type hostileCase struct{ name, schema, value string }

// hostileCases returns schemas with the keywords whose cost is a product or a power.
func hostileCases() []hostileCase {
	text := strings.Repeat("a", 1<<20)
	alternatives := func(n int) string {
		return list(n, func(i int) string { return fmt.Sprintf(`{"required":["x%d"]}`, i) })
	}
	empties := list(200_000, always("{}"))
	names := dict(100_000, func(i int) (string, string) { return fmt.Sprintf("%050d", i), "1" })
	objects := func(n int) string {
		return list(n, func(i int) string { return fmt.Sprintf(`{"a":{"b":%d},"c":[1,2,3]}`, i) })
	}
	powers := `{"$ref":"#/$defs/d0","$defs":` + dict(15, func(i int) (string, string) {
		if i == 14 {
			return "d14", `{"minimum":0}`
		}
		return fmt.Sprintf("d%d", i), `{"allOf":` + list(8, always(fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))) + `}`
	}) + `}`
	repeated := strings.Repeat("(a?){20}(b|a){20}", 60)
	return []hostileCase{
		{"pattern", `{"pattern":"` + strings.Repeat("(x+x+)+y|", 800) + `z"}`, `"` + strings.Repeat("x", 1<<20) + `"`},
		{"pattern with repetitions", `{"pattern":"^` + repeated + `$"}`, `"` + text + `"`},
		{"patternProperties", `{"patternProperties":` + dict(500, func(i int) (string, string) { return fmt.Sprintf("x.*y.*z%d", i), "{}" }) + `}`, names},
		{"propertyNames", `{"propertyNames":{"pattern":"` + repeated + `"}}`, names},
		{"format regex", `{` + draft7 + `"items":{"format":"regex"}}`, list(2000, func(i int) string { return `"` + strings.Repeat("(a[b-z]{3}|)", 600) + `"` })},
		{"format uri", `{` + draft7 + `"items":{"format":"uri"}}`, list(20, always(`"data:`+text[:1<<19]+`"`))},
		{"enum", `{"items":{"allOf":` + list(100, always(`{"enum":`+objects(20)+`}`)) + `}}`, objects(50_000)},
		{"const", `{"items":{"allOf":` + list(20, always(`{"const":"`+text[:40_000]+`"}`)) + `}}`, list(100, always(`"`+text[:40_000]+`"`))},
		{"uniqueItems", `{"allOf":` + list(500, always(`{"uniqueItems":true}`)) + `}`, list(200_000, func(i int) string { return fmt.Sprint(i) })},
		{"anyOf", `{"items":{"anyOf":` + alternatives(1000) + `}}`, empties},
		{"oneOf", `{"items":{"oneOf":` + alternatives(1000) + `}}`, empties},
		{"allOf", `{"items":{"allOf":` + list(1000, always(`{"maxProperties":1}`)) + `}}`, empties},
		{"not", `{"items":{"not":{"anyOf":` + alternatives(1000) + `}}}`, empties},
		{"if", `{"items":{"if":{"anyOf":` + alternatives(1000) + `},"then":false}}`, empties},
		{"contains", `{"allOf":` + list(500, always(`{"contains":{"minProperties":1}}`)) + `}`, empties},
		{"dependentSchemas", `{"items":{"dependentSchemas":{"a":{"anyOf":` + alternatives(1000) + `}}}}`, list(100_000, always(`{"a":1}`))},
		{"dependencies", `{` + draft7 + `"items":{"dependencies":` + dict(1000, func(i int) (string, string) { return fmt.Sprintf("a%d", i), `["b"]` }) + `}}`, empties},
		{"dependentRequired", `{"items":{"dependentRequired":` + dict(1000, func(i int) (string, string) { return fmt.Sprintf("a%d", i), `["b"]` }) + `}}`, empties},
		{"required", `{"items":{"required":` + list(10_000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}}`, list(1000, always(dict(100, func(i int) (string, string) { return fmt.Sprint(i), "1" })))},
		{"unevaluatedItems", `{"allOf":` + list(500, always(`{"maxItems":1000000}`)) + `,"unevaluatedItems":{}}`, empties},
		{"unevaluatedProperties", `{"allOf":` + list(500, always(`{"maxProperties":1000000}`)) + `,"unevaluatedProperties":{}}`, names},
		{"references", powers, `1`},
		{"recursion", `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200)},
		{"numbers", `{"items":{"multipleOf":3e-4000,"maximum":1e4001}}`, list(100_000, always("1e4000"))},
		{"lengths", `{"allOf":` + list(1000, always(`{"minLength":1}`)) + `}`, `"` + text + `"`},
		{"reading", `{}`, list(999_999, always("[]"))},
		{"messages about names", `{"items":{"enum":` + list(3000, func(i int) string { return fmt.Sprintf(`"%060d"`, i) }) + `}}`, list(1000, always(`"`+strings.Repeat("0", 59)+`x"`))},
		{"messages about properties", `{"properties":` + dict(1000, func(i int) (string, string) { return fmt.Sprintf("%060d", i), "{}" }) + `,"additionalProperties":false}`,
			dict(20_000, func(i int) (string, string) { return fmt.Sprintf("%059dx", i), "1" })},
	}
}

// TestHostileSchemasAreStopped checks that validation stops when Spend refuses more work,
// and that it asks often enough.
func TestHostileSchemasAreStopped(t *testing.T) {
	t.Parallel()
	const enough = 2_000_000 // about a millisecond
	for _, c := range hostileCases() {
		t.Run(c.name, func(t *testing.T) {
			memory := &valueRoom{most: 1 << 30}
			s := mustCompile(t, c.schema).WithRoom(memory)
			for name, check := range map[string]func(Spend) error{
				"Validate": func(spend Spend) error { return s.Validate([]byte(c.value), spend) },
				"Coerce":   func(spend Spend) error { _, err := s.Coerce([]byte(c.value), spend); return err },
			} {
				ctx, cancel := context.WithCancel(t.Context())
				spent, late, most := uint64(0), 0, uint64(0)
				err := check(func(units uint64) error {
					if ctx.Err() != nil {
						late++
					}
					if most = max(most, units); spent+units > enough {
						cancel()
					}
					spent += units
					return ctx.Err()
				})
				cancel()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v after %d units", name, err, spent)
				}
				if late > 0 {
					t.Errorf("%s went on %d times after its context had ended", name, late)
				}
				if memory.taken == 0 || memory.used != 0 {
					t.Errorf("%s took %d bytes, of which %d remain", name, memory.taken, memory.used)
				}
				if most > 4_000_000 {
					t.Errorf("%s did %d units at a time", name, most)
				}
			}
		})
	}
}

// TestPatternLimits checks that patterns that are slow to parse or to compile are refused.
func TestPatternLimits(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{
		"repetitions":          strings.Repeat("(a{1000}|)", 20),
		"nested repetitions":   "((a{30}){30}){30}",
		"classes of Unicode":   strings.Repeat(`\\pL`, maxUnicodeClasses+1),
		"ranges of alphabets":  "(?i)" + strings.Repeat(`[B-𞥃]`, 5),
		"ranges with escapes":  "(?s-m:(?i:" + strings.Repeat(`[B-\\x{10FFF}]`, 5) + "))",
		"more than is allowed": strings.Repeat("a", MaxPatternBytes+1),
	} {
		_, err := CompileSchema([]byte(`{"pattern":"`+pattern+`"}`), "schema")
		if !errors.As(err, new(*SchemaError)) {
			t.Errorf("%s: %v", name, err)
		}
		s := mustCompile(t, `{`+draft7+`"format":"regex"}`)
		if err := s.Validate([]byte(`"`+pattern+`"`), nil); !errors.As(err, new(*ValidationError)) {
			t.Errorf("%s, as a value: %v", name, err)
		}
	}
	for _, pattern := range []string{`^[a-z]{1,1000}$`, `(?i)^[a-z-]+\\.(png|jpe?g)$`, `^\\p{Lu}[\\p{L}\\p{N} ]*$`, `[\\x{1F300}-\\x{1F5FF}]`} {
		mustCompile(t, `{"pattern":"`+pattern+`"}`)
	}
	many := dict(100, func(i int) (string, string) { return fmt.Sprintf("x%d(a{100}){30}", i), "{}" })
	if _, err := CompileSchema([]byte(`{"patternProperties":`+many+`}`), "schema"); !errors.As(err, new(*SchemaError)) {
		t.Errorf("many patterns: %v", err)
	}
}

// TestViolationsAreBounded checks that an error message has a limited length, however many
// violations a value has.
func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 100_000)
	for what, c := range map[string]hostileCase{
		"items":         {"", `{"items":{"type":"null"}}`, list(99_999, always("1"))},
		"names":         {"", `{"additionalProperties":false}`, dict(99_999, func(i int) (string, string) { return fmt.Sprint(i), "1" })},
		"missing":       {"", `{"items":{"required":` + list(5000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}}`, list(1000, always("{}"))},
		"long pointers": {"", `{"additionalProperties":{"items":{"type":"null"}}}`, `{"` + name + `":` + list(10_000, always("1")) + `}`},
		"alternatives":  {"", `{"items":{"anyOf":[{"items":{"type":"null"}},{"items":{"type":"string"}}]}}`, list(990, always(list(100, always("1"))))},
	} {
		var wrong *ValidationError
		if err := mustCompile(t, c.schema).Validate([]byte(c.value), AtMost(5_000_000_000)); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		size := 0
		for _, v := range wrong.Violations {
			size += len(v.Pointer) + len(v.Message)
		}
		if n := len(wrong.Violations); n > MaxViolations || n == 0 || size > 4<<20 {
			t.Errorf("%s: %d violations of %d bytes", what, n, size)
		}
	}
}

// valueRoom is a jsonvalue.Room of most bytes.
type valueRoom struct{ most, used, taken int64 }

var errNoRoom = errors.New("no room")

func (r *valueRoom) Take(bytes int64) error {
	if r.used+bytes > r.most {
		return errNoRoom
	}
	r.used += bytes
	r.taken += bytes
	return nil
}

func (r *valueRoom) Give(bytes int64) { r.used -= bytes }

// TestCheckedValuesAreCounted checks that no value is built that the room has no memory for, that
// without a room only small ones are, and that everything is given back, however the check ends.
func TestCheckedValuesAreCounted(t *testing.T) {
	schema := mustCompile(t, `{"properties":{"n":{"type":"integer"},"m":{"default":7},"list":{"type":"array"}}}`)
	small := `{"n":"1","list":"[` + strings.Repeat("1,", 1000) + `1]"}` // rounds of Coerce, and texts that it decodes
	large := func(objects int) []byte { return []byte(`{"list":` + list(objects, always(`{"":1}`)) + `}`) }
	var tooMany *ValidationError
	for what, c := range map[string]struct {
		value []byte
		most  int64
		want  func(error) bool
	}{
		"a value that fits":           {[]byte(small), 1 << 20, func(err error) bool { return err == nil }},
		"a large one that fits":       {large(60_000), 60_000 * 1400, func(err error) bool { return err == nil }},
		"one that is not JSON":        {[]byte(`{"n":[1,2,]}`), 1 << 20, func(err error) bool { return errors.As(err, &tooMany) }},
		"one that does not match":     {[]byte(`{"n":[]}`), 1 << 20, func(err error) bool { return errors.As(err, &tooMany) }},
		"one for which is no room":    {large(400_000), 64 << 20, func(err error) bool { return errors.Is(err, errNoRoom) }},
		"a small one without room":    {[]byte(small), 100, func(err error) bool { return errors.Is(err, errNoRoom) }},
		"one with too many values":    {large(2_100_000), 1 << 40, func(err error) bool { return errors.As(err, &tooMany) }},
		"a large one, without a room": {large(60_000), 0, func(err error) bool { return errors.As(err, &tooMany) }},
	} {
		memory := &valueRoom{most: c.most}
		s := schema.WithRoom(memory)
		if c.most == 0 {
			s = schema
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		coerced, err := s.Coerce(c.value, AtMost(1<<62))
		if err == nil {
			coerced, err = s.Fill(coerced, AtMost(1<<62))
		}
		runtime.ReadMemStats(&after)
		if !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
		if memory.used != 0 {
			t.Errorf("%s: %d bytes were not given back", what, memory.used)
		}
		if got := after.TotalAlloc - before.TotalAlloc; err != nil && got > 8<<20 {
			t.Errorf("%s: it was refused after %d bytes were allocated", what, got)
		}
		if err == nil && c.most == 1<<20 && !strings.Contains(string(coerced), `"n":1,"list":[1,1,`) {
			t.Errorf("%s: %.100s", what, coerced)
		}
	}
}
