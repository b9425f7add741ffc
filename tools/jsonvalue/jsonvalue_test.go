package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// room is a Room of most bytes.
type room struct{ most, used int64 }

var errFull = errors.New("full")

func (r *room) Take(bytes int64) error {
	if r.used+bytes > r.most {
		return errFull
	}
	r.used += bytes
	return nil
}

func (r *room) Give(bytes int64) { r.used -= bytes }

// shapes are texts that become much larger when they are decoded, of about n values.
func shapes(n int) map[string]string {
	repeat := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	members := func(n int, value string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + strconv.Itoa(i) + `":` + value)
		}
		return "{" + b.String()[1:] + "}"
	}
	return map[string]string{
		"tiny objects":       repeat(`{"":1}`, n/2),
		"objects of objects": repeat(`{"":{"":{"":{"":[]}}}}`, n/5),
		"empty objects":      repeat(`{}`, n),
		"empty arrays":       repeat(`[ ]`, n),
		"arrays of one":      repeat(`[1]`, n/2),
		"numbers":            repeat(`1`, n),
		"literals":           repeat(`null`, n),
		"texts":              repeat(`"x"`, n),
		"escaped texts":      repeat(`"\u0041\n,{[:\"}"`, n),
		"not UTF-8":          repeat("\"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\"", n),
		"nine members":       repeat(members(9, "1"), n/10),
		"one large object":   members(n, "1"),
		"texts in an object": members(n, `""`),
		"many large objects": repeat(members(1000, "[]"), max(n/1000, 1)),
		"white space":        "[ " + strings.Repeat("{ \"\" : 1 } , ", n/2) + "0 ]",
	}
}

// TestMeasure checks that no tree is larger than was measured, and that it is not much smaller
// either, since what is measured counts against its owner.
func TestMeasure(t *testing.T) {
	for what, text := range shapes(20_000) {
		raw := []byte(text)
		values, size := measure(raw)
		memory := &room{most: 1 << 40}
		before := heap()
		tree, err := Options{Room: memory}.Decode(raw)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := heap() - before
		if got > memory.used || got < memory.used/12 {
			t.Errorf("%s: %d bytes, measured as %d", what, got, memory.used)
		}
		if n := count(tree.Value); n != values {
			t.Errorf("%s: %d values, measured as %d", what, n, values)
		}
		if allocs := testing.AllocsPerRun(1, func() { measure(raw) }); allocs != 0 || size > memory.used {
			t.Errorf("%s: measuring it makes %v allocations", what, allocs)
		}
		tree.Free()
		tree.Free()
		if memory.used != 0 || tree.Value != nil {
			t.Errorf("%s: %d bytes remain", what, memory.used)
		}
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func count(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += count(member)
		}
	case []any:
		for _, item := range v {
			n += count(item)
		}
	}
	return n + 1
}

// TestRefusedTexts checks that nothing is built from a text that has too many values, or for
// which there is no memory.
func TestRefusedTexts(t *testing.T) {
	texts := shapes(MaxUncounted + 10_000)
	texts["very many objects"] = shapes(MaxValues + 10_000)["tiny objects"]
	for what, text := range texts {
		raw := []byte(text)
		var many *TooManyError
		allocated := allocations(func() {
			for _, o := range []Options{{}, {Exact: true}, {Room: &room{most: 1 << 40}, Values: MaxUncounted}} {
				if _, err := o.Decode(raw); !errors.As(err, &many) || many.Most != MaxUncounted {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := Valid(raw); !errors.As(err, &many) {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := (Options{Room: &room{most: 1 << 20}}).Decode(raw[:len(raw)/5]); !errors.Is(err, errFull) && !errors.As(err, &many) {
				t.Errorf("%s: %v", what, err)
			}
		})
		if allocated > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", what, allocated)
		}
	}
	var many *TooManyError
	_, err := Options{Room: &room{most: 1 << 40}}.Decode([]byte(texts["very many objects"]))
	if !errors.As(err, &many) || many.Most != MaxValues {
		t.Error(err)
	}
}

func allocations(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecode compares with what encoding/json gets.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, ` `, `1`, ` -1.50e+3 `, `"a"`, `"\ud800"`, "\"\xff\"", `"\u00e4\n"`, `true`, `null`, `[]`, `{}`, `[1,]`, `{"a":1,}`, `{"a"}`, `1 2`, `01`,
		`{"a":1,"a":{"b":2},"c":[{},[],null]}`, `{"\ud800":1,"\ufffd":2}`, `[1`, `{"a":`, `nul`, `"a`, "\"\n\"", `1e400`, strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), `[}`, `{]`, `\"{`, `[1]{`, "\ufeff1",
	} {
		got, err := Decode([]byte(text))
		want, wantErr := standard([]byte(text))
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%.100q: %v, %v; encoding/json: %v, %v", text, got, err, want, wantErr)
		}
		if valid := Valid([]byte(text)); (valid == nil) != (err == nil) {
			t.Errorf("%.100q: Valid: %v", text, valid)
		}
	}
}

func standard(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// TestExact checks what is refused because parsers differ.
func TestExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"b":{"a":1, "a" : 2}}`:       "/b/a: not valid JSON: duplicate object member name (at byte 13)",
		"[\"\xff\"]":                   "/0: not valid JSON: invalid UTF-8 (at byte 2)",
		`1e9999`:                       "the number 1e9999 is too long (at most 4096 digits, and exponents up to ±4096)",
		`[[[1]]]`:                      "/0/0: nested deeper than 2 levels",
		``:                             "not valid JSON: it is empty",
		`1 1`:                          "not valid JSON: more than one value",
		`{"a":1,"b":{"a":[{"a":""}]}}`: "/b/a: nested deeper than 2 levels",
	} {
		memory := &room{most: 1 << 20}
		_, err := Options{Exact: true, Depth: 2, Room: memory}.Decode([]byte(text))
		if err == nil || err.Error() != want || !errors.As(err, new(*Error)) || memory.used != 0 {
			t.Errorf("%s: %v, %d bytes", text, err, memory.used)
		}
	}
}

// TestStepPanics checks that memory is given back if the caller stops the work.
func TestStepPanics(t *testing.T) {
	t.Parallel()
	memory := &room{most: 1 << 20}
	defer func() {
		if r := recover(); r != "stop" || memory.used != 0 {
			t.Errorf("%v, %d bytes", r, memory.used)
		}
	}()
	_, _ = Options{Room: memory, Step: func(int64) { panic("stop") }}.Decode([]byte(`[1]`))
}

// FuzzDecode compares with what encoding/json gets, and the number of values with that of measure.
func FuzzDecode(f *testing.F) {
	for _, text := range shapes(20) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Decode(raw)
		want, wantErr := standard(raw)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v, %v; encoding/json: %v, %v", raw, got, err, want, wantErr)
		}
		if values, _ := measure(raw); err == nil && values < count(got) {
			t.Fatalf("%q: %d values, measured as %d", raw, count(got), values)
		}
	})
}
