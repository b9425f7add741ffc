package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// FuzzPlaces checks that each value of a file is where findPlaces says: decoding the text
// there gives the value.
func FuzzPlaces(f *testing.F) {
	addSeeds(f, ".toml")
	for _, s := range []string{
		"a = 1 # x\nb.c = 'd'\n[e.\"f g\"]\nh = [1, [2, \"]\"], # z\n {i = 3}]\n",
		"[[a]]\nb = 1\n[[a.c]]\nd = '''x''''\n[[a.c]]\nd = \"\"\"y\\\"\"\"\"\n[[a]]\nb = 2\n[a.e]\nf = {}\n",
		"x = 1979-05-27 07:32:00 # t\n\"\\u0061\" = {b.c = 1, b.d = \"}\"}\r\n''=''\n",
		"[a]\n[a.b]\nc = [\n]\n[d]\n'e.f' = inf\n", "\ufeffa=1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := strings.TrimPrefix(string(data), "\ufeff")
		places := findPlaces(text) // must end, whatever it is given
		var root map[string]any
		if len(data) > 1<<12 || !clean(text) {
			return
		}
		if _, err := toml.Decode(text, &root); err != nil {
			return
		}
		checkPlaces(t, text, places, nil, root)
	})
}

// clean reports whether text contains none of the bytes that separate parts of paths.
func clean(text string) bool {
	return strings.IndexByte(text, 0xfe) < 0 && strings.IndexByte(text, 0xff) < 0
}

// checkPlaces checks v, the value at path, and the values in it.
func checkPlaces(t *testing.T, text string, places *places, path []string, v any) {
	p, ok := places.at[pathID(path)]
	if !ok && len(path) > 0 {
		t.Fatalf("%q has no place", path)
	}
	if p.value.to > p.value.from {
		var got struct{ V any }
		if _, err := toml.Decode("V = "+text[p.value.from:p.value.to], &got); err != nil || !sameTOML(got.V, v) {
			t.Errorf("%q is said to be %q, which is %v (%v), want %v", path, text[p.value.from:p.value.to], got.V, err, v)
		}
	}
	in := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch v := v.(type) {
	case map[string]any:
		if len(places.order[pathID(path)]) != len(v) {
			t.Errorf("%q has the keys %q, want those of %v", path, places.order[pathID(path)], v)
		}
		for key, value := range v {
			checkPlaces(t, text, places, in(key), value)
		}
	case []any:
		for i, item := range v {
			checkPlaces(t, text, places, in(indexKey(i)), item)
		}
	case []map[string]any:
		for i, item := range v {
			checkPlaces(t, text, places, in(indexKey(i)), item)
		}
	}
}

// sameTOML compares values of the library, which has two types for arrays of tables. NaN
// equals itself.
func sameTOML(a, b any) bool {
	return reflect.DeepEqual(plain(a), plain(b))
}

func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			m[key] = plain(value)
		}
		return m
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case float64:
		if v != v {
			return "NaN"
		}
	}
	return v
}
