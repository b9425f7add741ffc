package wire

import (
	"encoding/json"
	"math"
	"testing"
)

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		what string
		add  func(o *Object)
		want string
	}{
		{"nothing", func(*Object) {}, `{}`},
		{"nothing that is there", func(o *Object) { o.Raw("a", nil); o.NonEmpty("b", ""); o.NonZero("c", 0); o.Texts("d", nil) }, `{}`},
		{"texts", func(o *Object) { o.Texts("a", []string{"b", `"c\`}) }, `{"a":["b","\"c\\"]}`},
		{"raw bytes stay", func(o *Object) { o.Raw("a", []byte(`{ "n" : 1.0, "n":9007199254740993 }`)) }, `{"a":{ "n" : 1.0, "n":9007199254740993 }}`},
		{"order stays", func(o *Object) { o.Text("b", "1"); o.Int("a", -2); o.Bool("c", true); o.Bool("d", false) }, `{"b":"1","a":-2,"c":true,"d":false}`},
		{"quoting", func(o *Object) { o.Text("a\"b\n", "é\\\x00<>&"); o.Text("c", "\xff") }, "{\"a\\\"b\\n\":\"é\\\\\\u0000<>&\",\"c\":\"\\ufffd\"}"},
		{"empty text", func(o *Object) { o.Text("a", ""); o.NonEmpty("b", "x") }, `{"a":"","b":"x"}`},
		{"bounds", func(o *Object) {
			o.Int("a", math.MinInt64)
			o.Uint("b", math.MaxUint64)
			o.NonZero("c", math.MaxUint64)
		}, `{"a":-9223372036854775808,"b":18446744073709551615,"c":18446744073709551615}`},
	} {
		for _, o := range []Object{{}, NewObject(0), NewObject(1000)} {
			if tt.add(&o); o.IsEmpty() != (tt.want == `{}`) {
				t.Errorf("%s: IsEmpty() = %v", tt.what, o.IsEmpty())
			}
			if got := o.Bytes(); string(got) != tt.want || !json.Valid(got) {
				t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
			}
		}
	}
}

func TestArray(t *testing.T) {
	for want, items := range map[string][][]byte{
		`[]`:               nil,
		`[1.0]`:            {[]byte(`1.0`)},
		`[{"a":1},"x",[]]`: {[]byte(`{"a":1}`), []byte(`"x"`), []byte(`[]`)},
	} {
		if got := string(Array(items)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMessagesAllocateOnce checks that building a message allocates only its bytes.
func TestMessagesAllocateOnce(t *testing.T) {
	params, id := []byte(`{"name":"a","arguments":{}}`), []byte(`"id"`)
	for what, build := range map[string]func() []byte{
		"request":      func() []byte { return Request(math.MaxInt64, "notifications/cancelled", params) },
		"no params":    func() []byte { return Request(math.MinInt64, "tools/list", nil) },
		"notification": func() []byte { return Notification("notifications/progress", params) },
		"result":       func() []byte { return Response(id, Reply{Result: params}) },
		"error":        func() []byte { return Response(nil, Reply{Error: params}) },
		"array":        func() []byte { return Array([][]byte{params, id}) },
	} {
		if n := testing.AllocsPerRun(100, func() { sink = build() }); n != 1 {
			t.Errorf("%s: %v allocations, want 1", what, n)
		}
	}
}

var sink []byte

func BenchmarkMessages(b *testing.B) {
	params, id := []byte(`{"name":"github__search","arguments":{"query":"x"}}`), []byte(`12`)
	for name, build := range map[string]func() []byte{
		"request":      func() []byte { return Request(12, "tools/call", params) },
		"notification": func() []byte { return Notification("notifications/progress", params) },
		"response":     func() []byte { return Response(id, Reply{Result: params}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = build()
			}
		})
	}
}
