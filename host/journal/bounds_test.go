package journal

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const beginLine = `{"t":"begin","run":"%s"%s,"v":1,"time":"2001-02-03T04:05:06Z","tool":"x","definition":{"code":"return 1"}}` + "\n"

// chained returns the record of n runs, each of which calls the next.
func chained(n int) string {
	var b strings.Builder
	for i := range n {
		parent := ""
		if i > 0 {
			parent = fmt.Sprintf(`,"parent":{"run":"%x","call":1}`, i-1)
		}
		fmt.Fprintf(&b, beginLine, fmt.Sprintf("%x", i), parent)
		fmt.Fprintf(&b, `{"t":"call","run":"%x","seq":1,"server":"tools","tool":"x"}`+"\n", i)
	}
	return b.String()
}

// TestRecordsAreNotLargerThanRuns checks that a record larger than any run is refused.
func TestRecordsAreNotLargerThanRuns(t *testing.T) {
	one := fmt.Sprintf(beginLine, "1", "")
	for name, tt := range map[string]struct {
		text, what string
	}{
		"as deep as runs":   {chained(abi.MaxChain + 1), ""},
		"deeper":            {chained(abi.MaxChain + 2), "nested runs"},
		"very much deeper":  {chained(20_000), "nested runs"},
		"too many tools":    {strings.Replace(one, `"tool"`, `"agentTools":["a"`+strings.Repeat(`,""`, maxServers)+`],"tool"`, 1), "agentTools"},
		"too many servers":  {strings.Replace(one, `"tool"`, `"servers":["a"`+strings.Repeat(`,""`, maxServers)+`],"tool"`, 1), "servers"},
		"too many entries":  {one + `{"t":"log","run":"1","entries":[{"level":"info"}` + strings.Repeat(`,{"level":"info"}`, 1000) + "]}\n", ""},
		"a line of no kind": {one + `{"t":"x","run":"1"}` + "\n", ""},
	} {
		_, err := Decode(strings.NewReader(tt.text))
		var bound *BoundError
		if tt.what == "" && err != nil || tt.what != "" && (!errors.As(err, &bound) || bound.What != tt.what) {
			t.Errorf("%s: error %.200v, want %q", name, err, tt.what)
		}
	}
}

// TestCountsAreBounded checks each bound by starting with a count just below it.
func TestCountsAreBounded(t *testing.T) {
	for what, tt := range map[string]struct {
		before decoder
		line   string
	}{
		"calls":         {decoder{calls: maxCalls}, `{"t":"call","run":"1","seq":1}`},
		"compensations": {decoder{undos: maxCalls}, `{"t":"undo","run":"1"}`},
		"log entries":   {decoder{entries: maxEntries}, `{"t":"log","run":"1","entries":[{"level":"info"}]}`},
	} {
		d := newDecoder()
		if err := d.add([]byte(strings.TrimSpace(fmt.Sprintf(beginLine, "1", "")))); err != nil {
			t.Fatal(err)
		}
		d.calls, d.undos, d.entries = tt.before.calls-1, tt.before.undos-1, tt.before.entries-1
		if err := d.add([]byte(tt.line)); err != nil {
			t.Errorf("%s: the last that may be: %v", what, err)
		}
		var bound *BoundError
		if err := d.add([]byte(tt.line)); !errors.As(err, &bound) || bound.What != what {
			t.Errorf("%s: one too many: %v", what, err)
		}
	}
}

// shape describes a record to generate.
type shape struct{ calls, answers, first, step, children, parentCall int }

// record returns a record of that shape. Answers have the numbers first, first + step
// and so on.
func (s shape) record() string {
	var b strings.Builder
	fmt.Fprintf(&b, beginLine, "1", "")
	for i := range s.calls {
		fmt.Fprintf(&b, `{"t":"call","run":"1","seq":%d,"server":"tools","tool":"x"}`+"\n", i+1)
	}
	for i := range s.answers {
		fmt.Fprintf(&b, `{"t":"answer","run":"1","seq":%d,"value":1}`+"\n", s.first+i*s.step)
	}
	for i := range s.children {
		fmt.Fprintf(&b, beginLine, fmt.Sprintf("c%x", i), fmt.Sprintf(`,"parent":{"run":"1","call":%d}`, s.parentCall))
	}
	return b.String()
}

// countSteps reads a record and returns how many calls were examined for how many lines.
func countSteps(t *testing.T, text string) (steps, lines int) {
	t.Helper()
	d := newDecoder()
	for l, err := range readLines(strings.NewReader(text)) {
		if err == nil {
			err = d.add([]byte(string(l.text)))
		}
		if err != nil {
			t.Fatal(err)
		}
		lines++
	}
	if _, err := d.tree("1", 1); err != nil {
		t.Fatal(err)
	}
	return d.steps, lines
}

// FuzzReadingIsLinear generates records with inconsistent numbers and checks that the
// number of calls examined is about proportional to the lines, as for sorting. It
// counts steps instead of measuring time.
func FuzzReadingIsLinear(f *testing.F) {
	f.Add(300, 300, 301, 1, 0, 0)  // unknown answers
	f.Add(300, 300, 300, -1, 0, 0) // backwards
	f.Add(300, 300, 1, 0, 0, 0)    // always the first
	f.Add(300, 0, 0, 0, 300, 301)  // runs that no call has made
	f.Add(300, 0, 0, 0, 300, 300)
	f.Add(0, 100, -1<<62, 1<<60, 100, -1)
	f.Fuzz(func(t *testing.T, calls, answers, first, step, children, parentCall int) {
		bound := func(n int) int { return min(max(n, 0), 2000) }
		s := shape{bound(calls), bound(answers), first, step, bound(children), parentCall}
		if steps, lines := countSteps(t, s.record()); steps > lines*(20+2*bits.Len(uint(lines))) {
			t.Errorf("%d calls were looked at for %d lines: %+v", steps, lines, s)
		}
	})
}
