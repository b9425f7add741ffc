package smoke

import (
	"slices"
	"strings"
	"testing"
)

// TestSecretTexts checks which texts of a value are secret, also of one that a server has made large.
func TestSecretTexts(t *testing.T) {
	large := strings.Repeat(`{"":1},`, 1_100_000)
	for _, c := range []struct {
		name, raw string
		want      []string
	}{
		{"password", `"a"`, []string{"a"}},
		{"password", `[1.50,{"x":["b",true,null]},"c"]`, []string{"1.50", "b", "c"}},
		{"x", `{"token":{"y":"a"},"z":["b",{"password":1}],"u":{}}`, []string{"a", "1"}},
		{"x", `{"token":"a","token":"b"}`, []string{"a", "b"}},
		{"x", `[` + large + `{"token":"a"}]`, []string{"a"}},
		{"x", `{"token":"a"`, []string{"a"}},
		{"x", ``, nil},
	} {
		if got := secretTexts(c.name, []byte(c.raw)); !slices.Equal(got, c.want) {
			t.Errorf("%s %.100s: %q", c.name, c.raw, got)
		}
	}
}
