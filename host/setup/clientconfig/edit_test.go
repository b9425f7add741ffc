package clientconfig

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestSetJSON(t *testing.T) {
	const raw = `{"command":"x","args":["a"]}`
	tests := []struct{ name, text, want string }{
		{"empty file", "", "{\n  \"mcpServers\": {\n    \"m\": {\n      \"command\": \"x\",\n      \"args\": [\n        \"a\"\n      ]\n    }\n  }\n}\n"},
		{
			"comments and order stay",
			"// top\n{\n\t\"z\": 1, // one\n\t\"mcpServers\": {\n\t\t\"b\": {} // two\n\t},\n\t\"a\": 2,\n}\n// end",
			"// top\n{\n\t\"z\": 1, // one\n\t\"mcpServers\": {\n\t\t\"b\": {}, // two\n\t\t\"m\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\n\t\t\t\t\"a\"\n\t\t\t]\n\t\t}\n\t},\n\t\"a\": 2,\n}\n// end",
		},
		{
			"replaced in place",
			"{\"mcpServers\": {\n  /* c */ \"m\": 1, // d\n  \"n\": 2}}",
			"{\"mcpServers\": {\n  /* c */ \"m\": {\n      \"command\": \"x\",\n      \"args\": [\n        \"a\"\n      ]\n    }, // d\n  \"n\": 2}}",
		},
		{
			"line breaks of Windows, trailing comma, byte order mark",
			"\ufeff{\r\n    \"mcpServers\": {\r\n        \"b\": {},\r\n    },\r\n}\r\n",
			"\ufeff{\r\n    \"mcpServers\": {\r\n        \"b\": {},\r\n        \"m\": {\r\n            \"command\": \"x\",\r\n            \"args\": [\r\n                \"a\"\r\n            ]\r\n        },\r\n    },\r\n}\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := setJSON([]byte(tt.text), []string{"mcpServers", "m"}, []byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
			again, err := setJSON(got, []string{"mcpServers", "m"}, []byte(raw))
			if err != nil || !bytes.Equal(got, again) {
				t.Errorf("not idempotent: %v\n%q", err, again)
			}
		})
	}
}

func TestRemoveJSON(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"last", "{\"s\": {\n  \"a\": 1, // one\n  \"m\": 2 // two\n}}", "{\"s\": {\n  \"a\": 1 // one\n}}"},
		{"first", "{\"s\": {\n  \"m\": 2, // two\n  \"a\": 1 // one\n}}", "{\"s\": {\n  \"a\": 1 // one\n}}"},
		{"comment above stays", "{\"s\": {\n  // all\n  \"m\": 2,\n  \"a\": 1\n}}", "{\"s\": {\n  // all\n  \"a\": 1\n}}"},
		{"trailing comma", "{\"s\": {\n  \"a\": 1,\n  \"m\": 2,\n}}", "{\"s\": {\n  \"a\": 1,\n}}"},
		{"only", "{\"s\": {\n  \"m\": 2\n}}", "{\"s\": {}}"},
		{"one line", "{\"s\": {\"m\": 2, \"a\": 1}}", "{\"s\": { \"a\": 1}}"},
		{"not there", "{\"t\": {}}", "{\"t\": {}}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := removeJSON([]byte(tt.text), []string{"s", "m"})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
		})
	}
}

// FuzzEditJSON checks that an edit changes what it should and nothing else, and that
// hostile text is refused without a crash.
func FuzzEditJSON(f *testing.F) {
	for _, s := range []string{
		"", "{}", "{\"s\":{}}", "{\"s\":{\"m\":1}}", "// a\n{\"s\": {\"a\":1,/*b*/\"m\":2,}, // c\n}", "{\"s\":{\"m\":1 /*x*/,\"b\":2//y\n}}",
		"{\"s\":[]}", "{\"s\":{\"m\":1,\"m\":2}}", "[", "{\"a\":\"\\u0000\"}", "{\"s\":{\"a\":1/*k*/,\"m\":2}}//", "\ufeff{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := []string{"s", "m"}
		set, err := setJSON(text, path, []byte(`{"x":[1]}`))
		if err != nil {
			return
		}
		want := plain(t, text)
		servers, _ := want["s"].(map[string]any)
		if servers == nil {
			servers = map[string]any{}
			want["s"] = servers
		}
		servers["m"] = map[string]any{"x": []any{1.0}}
		if got := plain(t, set); !reflect.DeepEqual(got, want) {
			t.Errorf("set: got %v, want %v\n%q", got, want, set)
		}
		removed, ok, err := removeJSON(set, path)
		if err != nil || !ok {
			t.Fatalf("remove: %v, %v", ok, err)
		}
		delete(servers, "m")
		if got := plain(t, removed); !reflect.DeepEqual(got, want) {
			t.Errorf("remove: got %v, want %v\n%q", got, want, removed)
		}
	})
}

// plain returns what a text contains, without comments.
func plain(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v, err := parseJSON(text)
	if err != nil {
		t.Fatalf("%v\n%q", err, text)
	}
	v.Standardize()
	m := map[string]any{}
	if err := json.Unmarshal(v.Pack(), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
