package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestMergeMeta(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{``, ``, ``},
		{`{}`, `{}`, ``},
		{`{"k": 1.0 }`, ``, `{"k": 1.0 }`},
		{`{"k":9007199254740993}`, `{"k": 9007199254740993}`, `{"k":9007199254740993}`},
		{`{"k":1}`, `{"k":2}`, `{"io.github.mcp-metatool/upstreams":{"a":{"k":1},"b":{"k":2}}}`},
		{`{"k":1,"l":{"x":[1]}}`, `{"m":2}`, `{"k":1,"l":{"x":[1]},"m":2}`},
		{`{"io.github.mcp-metatool/upstreams":{"x":1}}`, `{"m":2}`,
			`{"m":2,"io.github.mcp-metatool/upstreams":{"a":{"io.github.mcp-metatool/upstreams":{"x":1}}}}`},
		{`{"k":1,"k":2}`, `{"k":2,"l":3}`, `{"k":2,"l":3}`},
		{`[1]`, `"x"`, ``},
		{`{"k":`, `{"l":3}`, `{"l":3}`},
	} {
		got := string(MergeMeta([]Part{{"a", []byte(tt.a)}, {"b", []byte(tt.b)}}))
		if got != tt.want {
			t.Errorf("%s + %s\ngot  %s\nwant %s", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestUnion(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{``, ``, `{}`},
		{`{"tools":{}}`, ``, `{"tools":{}}`},
		{`{"resources":{"subscribe":false,"x":1}}`, `{"resources":{"subscribe":true,"x":2},"logging":{}}`,
			`{"resources":{"subscribe":true,"x":1},"logging":{}}`},
		{`{"tasks":{"requests":{"tools":{"call":{}}}}}`, `{"tasks":{"list":{},"requests":{"x":{}}}}`,
			`{"tasks":{"requests":{"tools":{"call":{}},"x":{}},"list":{}}}`},
		{`{"a":true}`, `{"a":false}`, `{"a":true}`},
		{`{"a":{"b":1}}`, `{"a":true}`, `{"a":{"b":1}}`},
	} {
		if got := string(Union([]byte(tt.a), []byte(tt.b))); got != tt.want {
			t.Errorf("%s + %s\ngot  %s\nwant %s", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestUnionOfDeepObjects(t *testing.T) {
	deep := func(leaf string) []byte {
		return []byte(strings.Repeat(`{"a":`, 2000) + leaf + strings.Repeat(`}`, 2000))
	}
	if got := Union(deep("1"), deep("2")); !bytes.Equal(got, deep("1")) {
		t.Errorf("%d bytes", len(got))
	}
}

// FuzzMergeMeta checks that every member of both sides is found again, by value.
func FuzzMergeMeta(f *testing.F) {
	f.Add([]byte(`{"k":1}`), []byte(`{"k":2,"l":{}}`))
	f.Add([]byte(`{"io.github.mcp-metatool/upstreams":{"a":{}}}`), []byte(`{"\u0061":"\ud800","a":[]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) || !utf8.Valid(a) || !utf8.Valid(b) {
			return
		}
		merged := MergeMeta([]Part{{"a", a}, {"b", b}})
		if merged != nil && !wire.IsObject(merged) {
			t.Fatalf("%s + %s = %s", a, b, merged)
		}
		for server, raw := range map[string][]byte{"a": a, "b": b} {
			for _, m := range members(raw) {
				top, atTop := wire.Get(merged, m.name)
				own, apart := wire.Get(merged, UpstreamsKey, server, m.name)
				if !(atTop && sameJSON(top, m.value)) && !(apart && sameJSON(own, m.value)) {
					t.Fatalf("%s + %s = %s lacks %q of %s", a, b, merged, m.name, server)
				}
			}
		}
	})
}

func FuzzUnion(f *testing.F) {
	f.Add([]byte(`{"k":{"x":true}}`), []byte(` {"k": {"x":false,"y":[ ]},"l":{}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !utf8.Valid(a) || !utf8.Valid(b) {
			return
		}
		got := Union(a, b)
		if !wire.IsObject(got) {
			t.Fatalf("%s + %s = %s", a, b, got)
		}
		for _, raw := range [][]byte{a, b} {
			for _, m := range members(raw) {
				if _, ok := wire.Get(got, m.name); !ok {
					t.Fatalf("%s + %s = %s lacks %q", a, b, got, m.name)
				}
			}
		}
		got = Union(got, got) // every name is unique now
		if again := Union(got, got); !sameJSON(again, got) {
			t.Fatalf("%s united with itself: %s", got, again)
		}
	})
}
