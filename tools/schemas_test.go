package tools

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// manyProperties returns a schema with n properties, whose names begin with a prefix.
func manyProperties(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s%d":{}`, prefix, i)
	}
	return `{"type":"object","properties":{` + b.String() + `}}`
}

// TestLocationsAreBounded refuses schemas whose parts have long paths: the compiler keeps one for
// each part, so that 50 KB of text were 100 MB.
func TestLocationsAreBounded(t *testing.T) {
	t.Parallel()
	inner := manyProperties("p", 300)
	for _, name := range []string{strings.Repeat("n", 20_000), strings.Repeat("%", 20_000), strings.Repeat("~", 20_000), strings.Repeat("é", 10_000)} {
		for _, schema := range []string{
			`{"type":"object","properties":{"` + name + `":` + inner + `}}`,
			`{"type":"object","$defs":{"` + name + `":` + strings.ReplaceAll(inner, "{}", "true") + `}}`,
			`{"type":"object","dependentSchemas":{"` + name + `":{"anyOf":[` + strings.TrimSuffix(strings.Repeat("{},", 300), ",") + `]}}}`,
		} {
			_, err := CompileInputSchema([]byte(schema), "inputSchema")
			var refused *SchemaError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "too long for what is nested in them") {
				t.Errorf("%.40s...: %.200v", schema, err)
			}
		}
	}
	if _, err := CompileInputSchema([]byte(manyProperties(strings.Repeat("n", 100), 2000)), "inputSchema"); err != nil {
		t.Errorf("a large schema with usual names: %v", err)
	}
}

// TestSizesOfSchemas compares what compiled schemas are counted with to what they take.
func TestSizesOfSchemas(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, schema := range map[string]string{
		"properties": manyProperties("p", 4000),
		"long names": manyProperties(strings.Repeat("%", 100), 3000),
		"anyOf":      `{"type":"object","anyOf":[` + strings.TrimSuffix(strings.Repeat("{},", 4000), ",") + `]}`,
		"enum":       `{"type":"object","properties":{"a":{"enum":[` + strings.Repeat("0,", 50_000) + `1]}}}`,
		"patterns":   `{"type":"object","properties":{` + patternsOf(400) + `}}`,
	} {
		before := heap()
		s, err := CompileInputSchema([]byte(schema), "inputSchema")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		took := heap() - before
		t.Logf("%s: %d bytes of text take %d, counted as %d", name, len(schema), took, s.size)
		if s.size < took*2/3 {
			t.Errorf("%s: takes %d bytes, counted as %d", name, took, s.size)
		}
		runtime.KeepAlive(s)
	}
}

// patternsOf returns properties with different patterns.
func patternsOf(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"p%d":{"pattern":"(a%d|b){1,40}"}`, i, i))
	}
	return strings.Join(all, ",")
}

// TestSchemasAreBounded compiles more schemas than may be kept: those that were used longest ago
// go, and none is kept that is larger than all may be.
func TestSchemasAreBounded(t *testing.T) {
	t.Parallel()
	s := NewSchemas(1 << 20)
	compiled := map[string]int{}
	use := func(raw string) {
		t.Helper()
		if _, err := s.Input([]byte(raw), "inputSchema", func(uint64) func() { compiled[raw]++; return func() {} }); err != nil {
			t.Fatal(err)
		}
		if s.used > s.most || s.order.Len() != len(s.byText) {
			t.Fatalf("%d bytes, %d of %d schemas", s.used, s.order.Len(), len(s.byText))
		}
	}
	often := manyProperties("often", 10)
	for i := range 25 {
		use(often)
		use(manyProperties(fmt.Sprint("other", i, "-"), 100))
	}
	if compiled[often] != 1 {
		t.Errorf("what is used all the time was compiled %d times", compiled[often])
	}
	first := manyProperties("other0-", 100)
	use(first)
	if compiled[first] != 2 {
		t.Errorf("what was not used for long was compiled %d times", compiled[first])
	}
	use(manyProperties("large", 4000))
	s = NewSchemas(100 * keptOverhead)
	for i := range 300 { // errors count, too
		if _, err := s.Any(fmt.Appendf(nil, `{"type":%d}`, i), "inputSchema", nil); err == nil {
			t.Fatal("a schema that is none")
		}
		if len(s.byText) > 100 || s.used > s.most {
			t.Fatalf("%d schemas, %d bytes", len(s.byText), s.used)
		}
	}
}
