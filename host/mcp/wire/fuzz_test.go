package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":"x","result":{}}`, `[{"jsonrpc":"2.0","method":"a"}]`, `{"a":`, "\xff", `{"id":1,"id":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(raw)
		var e *RPCError
		if err != nil {
			if !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			if m.ID != nil && !json.Valid(bytes.ToValidUTF8(m.ID, []byte("?"))) {
				t.Fatalf("id %q", m.ID)
			}
			return
		}
		var want map[string]json.RawMessage
		if utf8.Valid(raw) && json.Unmarshal(raw, &want) != nil {
			t.Fatalf("accepted %q", raw)
		}
		if n := m.IsRequest(); n == (m.IsNotification() || m.IsResponse()) {
			t.Fatalf("%q is of no or two kinds", raw)
		}
	})
}

// FuzzEdit checks that an edit changes the member it names and nothing else.
func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[1,2]}`), "a", "b")
	f.Add([]byte(`{ "_meta" : {} }`), "_meta", "progressToken")
	f.Add([]byte(`{"a":1,"a":{}}`), "a", "")
	f.Fuzz(func(t *testing.T, obj []byte, k1, k2 string) {
		if !utf8.Valid(obj) || !utf8.ValidString(k1) || !utf8.ValidString(k2) {
			return
		}
		var before map[string]any
		isObject := json.Unmarshal(obj, &before) == nil && before != nil
		set, err := Set(obj, []byte(`"value"`), k1, k2)
		if err != nil {
			if inner, has := before[k1]; isObject {
				if _, innerObject := inner.(map[string]any); !has || innerObject {
					t.Fatalf("Set(%s, %q, %q): %v", obj, k1, k2, err)
				}
			}
			return
		}
		if got, ok := GetString(set, k1, k2); !ok || got != "value" {
			t.Fatalf("set %q.%q in %s: %s", k1, k2, obj, set)
		}
		var after map[string]any
		if err := json.Unmarshal(set, &after); err != nil {
			t.Fatalf("Set(%s) = %s: %v", obj, set, err)
		}
		inner, _ := before[k1].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		if before == nil {
			before = map[string]any{}
		}
		inner[k2], before[k1] = "value", inner
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("Set(%s) = %s", obj, set)
		}
		deleted, err := Delete(set, k1, k2)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := Get(deleted, k1, k2); ok {
			t.Fatalf("Delete(%s) = %s", set, deleted)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccccccccccccccccccccc\nd"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := NewReader(bytes.NewReader(raw), 16)
		for range len(raw) + 2 {
			msg, err := r.Read()
			var large *TooLargeError
			if err == nil && (len(msg) == 0 || len(msg) > 16+2 || bytes.IndexByte(msg, '\n') >= 0) {
				t.Fatalf("message %q", msg)
			}
			if err != nil && !errors.As(err, &large) {
				return
			}
		}
		t.Fatal("no end")
	})
}
