package config

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestOverlapping compares the way through sorted spans with a look at all of them.
func TestOverlapping(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var spans []span
		for range random.IntN(8) {
			from := random.IntN(40)
			spans = append(spans, span{from, from + 1 + random.IntN(12)})
		}
		sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return a.from - b.from })
		j := jsonRedaction{spans: sorted}
		for from := 0; from < 50; {
			from += random.IntN(4)
			to := from + random.IntN(9)
			within := slices.ContainsFunc(spans, func(s span) bool { return s.from >= from && s.to <= to })
			partly := slices.ContainsFunc(spans, func(s span) bool { return !(s.from >= from && s.to <= to) && s.from < to && s.to > from })
			if gotWithin, gotPartly := j.overlapping(from, to); gotWithin != within || gotPartly != partly {
				t.Fatalf("%v, from %d to %d: within %t, partly %t, want %t, %t", spans, from, to, gotWithin, gotPartly, within, partly)
			}
			from = to + 1
		}
	}
}

// TestManyMatches redacts answers that are made of what is looked for. With a look at all
// matches for each string, this took minutes.
func TestManyMatches(t *testing.T) {
	r := redactor([]string{"aaaaaaaa"}, `sk-[a-z]{4}`)
	raw := "[" + strings.Repeat(`"sk-abcd",1,`, maxMatches) + `"rest"]`
	out, changed := r.JSON([]byte(raw))
	items, err := wire.Elements(out)
	if err != nil || !changed || len(items) != 2*maxMatches+1 || string(items[0]) != `"****"` || string(items[1]) != "1" || string(items[2*maxMatches]) != `"rest"` {
		t.Errorf("%v %d: %.100s", err, len(items), out)
	}
	raw = "[" + strings.Repeat(`"sk-abcd",1,`, maxMatches+1) + `{"sk-efgh":null}]`
	out, _ = r.JSON([]byte(raw)) // too many: all is replaced
	if items, err = wire.Elements(out); err != nil || len(items) != 2*maxMatches+3 || string(items[1]) != `"****"` || string(items[2*maxMatches+2]) != `{"****":null}` {
		t.Errorf("%v %d: %.100s", err, len(items), out)
	}
	if text, _ := r.Text(raw); text != mask {
		t.Errorf("%.100s", text)
	}
	if spans := r.find(strings.Repeat("a", 1<<20), 0); len(spans) != 1 || spans[0] != (span{0, 1 << 20}) {
		t.Errorf("a secret that overlaps itself is %d spans", len(spans))
	}
	r.SetPatterns([]*regexp.Regexp{regexp.MustCompile(`[0-9]`)})
	if text, _ := r.Text(strings.Repeat("1,", maxMatches)); text != strings.Repeat(mask+",", maxMatches) {
		t.Errorf("%.100s", text)
	}
}
