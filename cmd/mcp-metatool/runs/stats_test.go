package runs

import (
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

func TestPercentiles(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tt := range []struct {
		values []float64
		want   percentiles
	}{{nil, percentiles{}}, {[]float64{7}, percentiles{7, 7, 7}}, {[]float64{3, 1, 2}, percentiles{2, 3, 3}}, {hundred, percentiles{50, 95, 99}}} {
		if got := percentilesOf(tt.values); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

// TestStatistics checks that answers within nested runs count once, and that a run that was
// continued counts with the time of all rounds.
func TestStatistics(t *testing.T) {
	answer := func(text string) journal.CallRecord {
		return journal.CallRecord{Answer: journal.Answer{Result: []byte(text)}}
	}
	nested := journal.Record{Calls: []journal.CallRecord{answer(`"12345678"`)}}
	rec := journal.Record{
		Done: true, Duration: time.Second, Begin: journal.Begin{Elapsed: 2 * time.Second},
		Calls:   []journal.CallRecord{answer(`"12"`), {Answer: journal.Answer{Result: []byte("of the nested run"), Run: &nested}}},
		Outcome: journal.Outcome{Result: []byte("1"), Fuel: 5},
	}
	rec.Definition.Name = "sum"
	failed := journal.Record{Done: true, Outcome: journal.Outcome{Error: abi.ErrPermission, Message: "no", Failure: []byte("{}")}}
	failed.Definition.Name = "sum"
	s := statistics{}
	s.addRun(&rec)
	s.addRun(&failed)
	got := s.list()[0]
	if got.Runs != 2 || got.Failures != 1 || got.Errors["permission"] != 1 || got.Refused != 1 {
		t.Errorf("%+v", got)
	}
	if got.Duration != (percentiles{0, 3000, 3000}) || got.Fuel != (percentiles{0, 5, 5}) || got.Calls != (percentiles{0, 2, 2}) {
		t.Errorf("%+v", got)
	}
	if got.Answers != 14 || got.Results != 3 || got.Kept != 11 {
		t.Errorf("%+v", got)
	}
}
