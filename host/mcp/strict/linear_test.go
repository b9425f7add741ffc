package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// hostile are items whose size grows with n, with what could be read again and again.
var hostile = map[string]func(n int) string{
	"members":     func(n int) string { return tool(`"x":{` + list(n, `"a%d":{}`) + `}`) },
	"same name":   func(n int) string { return tool(`"x":{` + list(n, `"":1`) + `}`) },
	"look-alikes": func(n int) string { return tool(list(n, `"Title_":null`)) },
	"nulls":       func(n int) string { return tool(`"annotations":{` + list(n, `"x%d":null`) + `}`) },
	"wrong look-alikes": func(n int) string {
		return `{"name":"t",` + list(n, `"Titl_e":5`) + `,"inputSchema":{"type":"object"}}`
	},
	"icons": func(n int) string { return tool(`"icons":[` + list(n, `{"src":"a","theme":null}`) + `]`) },
	"nested": func(n int) string {
		return tool(`"x":` + strings.Repeat(`{"a":[`, 40) + list(n, `1`) + strings.Repeat(`]}`, 40))
	},
	"numbers": func(n int) string { return tool(`"x":[` + list(n, `%d.5e1`) + `]`) },
	"a number": func(n int) string {
		return tool(`"x":` + strings.Repeat("0", 0) + `1` + strings.Repeat("0", n%300) + `.` + strings.Repeat("1", 20*n))
	},
	"escapes": func(n int) string { return tool(`"title":"` + strings.Repeat(`\u00e9`, n) + `","x":1`) },
	"properties": func(n int) string {
		return tool(`"outputSchema":{"type":"object","properties":{` + list(n, `"a%d":true`) + `}}`)
	},
	"references": func(n int) string { return output0(list(n, `"a%d":{"$ref":"#/properties/a%[1]d/x"}`)) },
	"same references": func(n int) string {
		return output0(list(n, `"a%d":{"$ref":"#/$defs/A"}`) + `},"$defs":{"A":{}`)
	},
	"long references": func(n int) string { return output0(`"a":{"$ref":"#` + strings.Repeat("/", n) + `"}`) },
	"deep targets": func(n int) string {
		return output0(`"r":{"$ref":"#/properties/x` + strings.Repeat("/x", 40) + `"},"x":` + strings.Repeat(`{"x":`, 40) + `{"enum":[` + list(n, `1`) + `]}` + strings.Repeat(`}`, 40))
	},
	"patterns":     func(n int) string { return output0(list(n, `"a%d":{"pattern":"^(a|b)*[x-z]{2,3}(?<n>c)\\k<n>$"}`)) },
	"long pattern": func(n int) string { return output0(`"a":{"pattern":"` + strings.Repeat("(?<a>b)", n) + `"}`) },
	"types":        func(n int) string { return output0(`"a":{"type":[` + list(n, `"string"`) + `]}`) },
}

func tool(members string) string {
	return `{"name":"t","inputSchema":{"type":"object"},` + members + `}`
}

func output0(properties string) string {
	return tool(`"outputSchema":{"type":"object","properties":{` + properties + `}}`)
}

// list joins n parts, in which %d is the index.
func list(n int, part string) string {
	parts := make([]string, n)
	for i := range parts {
		if parts[i] = part; strings.Contains(part, "%") {
			parts[i] = fmt.Sprintf(part, i)
		}
	}
	return strings.Join(parts, ",")
}

// TestJudgingIsLinear counts what is allocated for items of one, two and four times a size.
func TestJudgingIsLinear(t *testing.T) {
	for name, item := range hostile {
		var per []float64 // bytes that are allocated, for each byte
		var total uint64
		for _, n := range []int{2000, 4000, 8000} {
			raw := []byte(item(n))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Judge(wire.Tools, raw, false)
			runtime.ReadMemStats(&after)
			total = after.TotalAlloc - before.TotalAlloc
			per = append(per, float64(total)/float64(len(raw)))
		}
		if per[2] > 2*per[0]+2 || per[2] > 60 && total > 2<<20 { // places are bounded
			t.Errorf("%s: %.1f bytes for each byte", name, per)
		}
	}
}

// FuzzJudge checks that what clients get instead of an odd item is sound, differs by its
// members only, and that a sound item stays as it is.
func FuzzJudge(f *testing.F) {
	data, err := os.ReadFile("testdata/items.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		_, raw, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "stateless "), " ")
		f.Add([]byte(raw))
	}
	for _, item := range hostile {
		f.Add([]byte(item(3)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || !wire.IsObject(raw) {
			return // never in a list
		}
		before := bytes.Clone(raw)
		for _, surface := range wire.Surfaces {
			for _, stateless := range []bool{false, true} {
				v := Judge(surface, raw, stateless)
				if !bytes.Equal(raw, before) {
					t.Fatalf("%s was changed", before)
				}
				if v.Refused != "" {
					continue
				}
				if !v.Odd() && !stateless && (!bytes.Equal(v.Handshake, raw) || !bytes.Equal(v.Stateless, raw)) {
					t.Fatalf("%s becomes %s and %s, without a reason", raw, v.Handshake, v.Stateless)
				}
				if again := Judge(surface, v.Handshake, false); again.Odd() || !bytes.Equal(again.Handshake, v.Handshake) {
					t.Fatalf("%s becomes %s, which is odd: %s", raw, v.Handshake, again.summary())
				}
				again := Judge(surface, v.Stateless, true)
				if again.Refused != "" || !bytes.Equal(again.Stateless, v.Stateless) {
					t.Fatalf("%s becomes %s, which is odd: %s", raw, v.Stateless, again.summary())
				}
				for _, form := range [][]byte{v.Handshake, v.Stateless} {
					if !json.Valid(form) {
						t.Fatalf("%s becomes %s, which is no JSON", raw, form)
					}
				}
			}
		}
	})
}
