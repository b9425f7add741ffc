package replay

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestLimitsOfRecordsOnlyTighten checks that a replay uses no more memory and fuel than we
// allow, whatever the record says.
func TestLimitsOfRecordsOnlyTighten(t *testing.T) {
	most := sandbox.Limits{Memory: 32 << 20, Fuel: 100_000_000, Calls: 5, Arguments: 1 << 20, Answer: 1 << 20, Result: 1 << 20, Logs: 1 << 20}
	huge := journal.Limits{
		Timeout: math.MaxInt64, Memory: math.MaxUint64, Fuel: math.MaxUint64,
		Calls: math.MaxInt, Arguments: -1, Answer: math.MaxInt, Result: math.MaxInt, Logs: math.MinInt,
	}
	for name, tt := range map[string]struct {
		code, ends string
	}{
		"memory": {"x = []\nwhile True: x.append('y' * 1000000)", "memory"},
		"fuel":   {"while True: pass", "fuel"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := journal.Record{ID: "1", Begin: journal.Begin{
				Definition: tools.Definition{Name: "x", Code: tt.code}, Params: []byte("{}"), Limits: huge, Guest: sandbox.GuestDigest(),
			}}
			report := replayed(t, rec, Options{Limits: most})
			if !bytes.Contains(report.Replayed.Failure, []byte(`"limit":"`+tt.ends+`"`)) {
				t.Errorf("ended with %s", report.Replayed.Failure)
			}
			if used := report.Record.Outcome; used.Memory > most.Memory || used.Fuel > most.Fuel {
				t.Errorf("used %d bytes, %d units", used.Memory, used.Fuel)
			}
			note := "note: the record has larger limits than runs may have here; replayed with memory 32MiB, fuel 100000000, calls 5, " +
				"arguments 1048576, answer 1048576, result 1048576, logs 1048576"
			if !strings.Contains(report.Text(), note) {
				t.Errorf("no such note: %s", report.Text())
			}
		})
	}
}

// FuzzLimitsOnlyTighten checks that no limit in a record becomes larger than ours, and that
// lower limits are not changed.
func FuzzLimitsOnlyTighten(f *testing.F) {
	f.Add(uint64(0), uint64(0), 0, 0, 0, 0, 0)
	f.Add(uint64(math.MaxUint64), uint64(1), math.MaxInt, -1, 1, math.MinInt, 5)
	f.Fuzz(func(t *testing.T, memory, fuel uint64, calls, arguments, answer, result, logs int) {
		s := &session{most: sandbox.Limits{}.WithDefaults()}
		was := journal.Limits{Memory: memory, Fuel: fuel, Calls: calls, Arguments: arguments, Answer: answer, Result: result, Logs: logs}
		got := s.begin(journal.Begin{Limits: was}).Limits
		for _, l := range [][3]uint64{
			{was.Memory, got.Memory, s.most.Memory}, {was.Fuel, got.Fuel, s.most.Fuel}, {uint64(was.Calls), uint64(got.Calls), uint64(s.most.Calls)},
			{uint64(was.Arguments), uint64(got.Arguments), uint64(s.most.Arguments)}, {uint64(was.Answer), uint64(got.Answer), uint64(s.most.Answer)},
			{uint64(was.Result), uint64(got.Result), uint64(s.most.Result)}, {uint64(was.Logs), uint64(got.Logs), uint64(s.most.Logs)},
		} { // a negative number is converted to a very large one
			if want := min(l[0], l[2]); l[1] != want {
				t.Errorf("%d became %d, want %d", l[0], l[1], want)
			}
		}
		if (got == was) != (s.lowered == nil) {
			t.Errorf("%+v, lowered %q", was, s.lowered)
		}
	})
}
