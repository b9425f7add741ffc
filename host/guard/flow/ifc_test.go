package flow

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestFromMeta gives the reader of _meta forms that it knows, and forms that it does not: these
// count as labels.
func TestFromMeta(t *testing.T) {
	private, untrusted := Of(Private), Of(Untrusted)
	both := private | untrusted
	for _, tt := range []struct {
		meta string
		want Labels
		odd  bool
	}{
		{``, 0, false},
		{`{}`, 0, false},
		{`{"x":"private"}`, 0, false},
		{`{"ifc":{}}`, 0, false},
		{`{"ifc":{"other":"private"}}`, 0, false},
		{`{"ifc":{"integrity":"trusted","confidentiality":"public"}}`, 0, false},
		{`{"ifc":{"integrity":"high","confidentiality":["public"]}}`, 0, false},
		{`{"ifc":{"confidentiality":[ "public" ]}}`, 0, false},
		{`{"ifc":{"integrity":"untrusted","confidentiality":"private"}}`, both, false},
		{`{"ifc":{"integrity":"low"}}`, untrusted, false},

		// Values that are not known.
		{`{"ifc":{"confidentiality":["alice","bob"]}}`, private, true},
		{`{"ifc":{"confidentiality":["public","alice"]}}`, private, true},
		{`{"ifc":{"confidentiality":["public","public"]}}`, private, true},
		{`{"ifc":{"confidentiality":[["public"]]}}`, private, true},
		{`{"ifc":{"confidentiality":[]}}`, private, true},
		{`{"ifc":{"confidentiality":"PRIVATE"}}`, private, true},
		{`{"ifc":{"confidentiality":"Public"}}`, private, true},
		{`{"ifc":{"confidentiality":"public "}}`, private, true},
		{`{"ifc":{"confidentiality":""}}`, private, true},
		{`{"ifc":{"confidentiality":null}}`, private, true},
		{`{"ifc":{"confidentiality":false}}`, private, true},
		{`{"ifc":{"confidentiality":0}}`, private, true},
		{`{"ifc":{"confidentiality":{"public":true}}}`, private, true},
		{`{"ifc":{"integrity":"medium"}}`, untrusted, true},
		{`{"ifc":{"integrity":"LOW"}}`, untrusted, true},
		{`{"ifc":{"integrity":["trusted"]}}`, untrusted, true},
		{`{"ifc":{"integrity":1}}`, untrusted, true},
		{`{"ifc":{"integrity":null,"confidentiality":"public"}}`, untrusted, true},

		// Names twice, and other writings of them.
		{`{"ifc":{"confidentiality":"private","confidentiality":"public"}}`, private, false},
		{`{"ifc":{"confidentiality":"public","confidentiality":"private"}}`, private, false},
		{`{"ifc":{"confidentiality":"private"},"ifc":{"confidentiality":"public"}}`, private, false},
		{`{"ifc":{"Confidentiality":"private"}}`, private, false},
		{`{"IFC":{"confidentiality":"private"}}`, private, false},
		{`{"\u0069fc":{"integrit\u0079":"untrusted"}}`, untrusted, false},

		// What is no object.
		{`{"ifc":null}`, both, true},
		{`{"ifc":"private"}`, both, true},
		{`{"ifc":"public"}`, both, true},
		{`{"ifc":["private"]}`, both, true},
		{`{"ifc":17}`, both, true},
		{`{"ifc":true}`, both, true},
		{`{"ifc":{"confidentiality":"public"`, both, true},
	} {
		got, odd := FromMeta([]byte(tt.meta))
		if got != tt.want || (odd != nil) != tt.odd {
			t.Errorf("%s: %q, odd %q; want %q, odd %v", tt.meta, got, odd, tt.want, tt.odd)
		}
	}
	readers := `["` + strings.Repeat(`alice","`, 100_000) + `bob"]`
	meta := []byte(`{"ifc":{"confidentiality":` + readers + `}}`)
	if got, _ := FromMeta(meta); got != private {
		t.Errorf("many readers: %q", got)
	}
	if n := testing.AllocsPerRun(5, func() { FromMeta(meta) }); n > 200 {
		t.Errorf("%v allocations for %d readers", n, 100_001)
	}
}

// FuzzFromMeta checks that nothing but the known values says that there is no label.
func FuzzFromMeta(f *testing.F) {
	for _, seed := range []string{`"public"`, `["public"]`, `"trusted"`, `"high"`, `"private"`, `null`, `{"a":[1]}`, `"\u0070ublic"`, `["public",]`, `"public","integrity":"low"`} {
		f.Add(seed)
	}
	free := map[string][]string{confidentiality: {`"public"`, `["public"]`}, integrity: {`"trusted"`, `"high"`}}
	f.Fuzz(func(t *testing.T, value string) {
		for name, label := range map[string]Label{confidentiality: Private, integrity: Untrusted} {
			got, _ := FromMeta([]byte(`{"ifc":{"` + name + `":` + value + `}}`))
			compact := value
			var b bytes.Buffer
			if json.Compact(&b, []byte(value)) == nil {
				compact = b.String()
			} else {
				compact = ""
			}
			if !slices.Contains(free[name], compact) && compact != "" && !got.Has(label) {
				t.Errorf("%s: %s has no label", name, value)
			}
			if slices.Contains(free[name], compact) && got != 0 {
				t.Errorf("%s: %s has the labels %q", name, value, got)
			}
		}
	})
}
