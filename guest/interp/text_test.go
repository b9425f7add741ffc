package interp

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"
)

// TestCountsCodePoints checks that the tests run with the interpreter of the guest.
func TestCountsCodePoints(t *testing.T) {
	if n := starlark.String("Zoë").Len(); n != 3 {
		t.Errorf(`len("Zoë") is %d`, n)
	}
}

// TestKeysEqualAfterRepair checks that keys that are not UTF-8, which no script can make,
// are repaired in JSON, and refused if two of them become equal.
func TestKeysEqualAfterRepair(t *testing.T) {
	for want, keys := range map[string][]string{
		"{\"\uFFFD\":1,\"x\":1}":     {"\xc3", "x"},
		"two keys are both \"\uFFFD": {"\xc3", "x", "\xa9"},
	} {
		o := newObject(0)
		for _, k := range keys {
			if err := o.Dict.SetKey(starlark.String(k), starlark.MakeInt(1)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := encodeJSON("value", o)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("%q: got %s, want %s", keys, got, want)
		}
	}
}
