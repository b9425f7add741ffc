package wire

import "testing"

func TestWithout(t *testing.T) {
	for _, tt := range []struct{ obj, want string }{
		{`{}`, `{}`},
		{` { "x" : 1 } `, ` { "x" : 1 } `},
		{`{"a":1}`, `{}`},
		{`{"x":[1, 2] ,"a":{"b":1},"y":"a"}`, `{"x":[1, 2],"y":"a"}`},
		{`{"a":1,"x":1,"a":2,"\u0061":3,"b":null,"y":2}`, `{"x":1,"y":2}`},
	} {
		got, err := Without([]byte(tt.obj), "a", "b")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.obj, got, err, tt.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a":1`, `{"a":1}x`, `null`} {
		if got, err := Without([]byte(bad), "a"); err == nil {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}

// FuzzWithout compares Without with Delete.
func FuzzWithout(f *testing.F) {
	f.Add([]byte(`{"a":1,"x":{"a":2},"b":[]}`))
	f.Fuzz(func(t *testing.T, obj []byte) {
		got, err := Without(obj, "a", "b")
		want, err2 := Delete(obj, "a")
		if err2 == nil {
			want, err2 = Delete(want, "b")
		}
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%s: %v, Delete %v", obj, err, err2)
		}
		if err != nil {
			return
		}
		all, ok := Members(got)
		others, _ := Members(want)
		if !ok || len(all) != len(others) {
			t.Fatalf("%s: got %s, want %s", obj, got, want)
		}
		for i := range all {
			if all[i].Name != others[i].Name || string(all[i].Value) != string(others[i].Value) {
				t.Fatalf("%s: got %s, want %s", obj, got, want)
			}
		}
	})
}

func TestExtend(t *testing.T) {
	for _, tt := range []struct{ obj, more, want string }{
		{`{}`, `{}`, `{}`},
		{` { } `, `{"x":1}`, `{ "x":1}`},
		{`{"a":1} `, `{ }`, `{"a":1}`},
		{"{\"a\":1\n}", ` {"x":1,"y":[]}`, "{\"a\":1\n,\"x\":1,\"y\":[]}"},
	} {
		if got := string(Extend([]byte(tt.obj), []byte(tt.more))); got != tt.want {
			t.Errorf("%s with %s: got %s, want %s", tt.obj, tt.more, got, tt.want)
		}
	}
}
