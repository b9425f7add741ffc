package compose

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

// BenchmarkFlow compares runs with runs of the same script without [flow]: without a labelled
// answer, with a labelled answer and no sink, and with a labelled answer and 1 or 10 calls of a
// sink, for each action. Runs of both kinds alternate, so that -benchtime 1x gives a usable ratio:
//
//	go test ./host/script/compose -run xxx -bench Flow -benchtime 1x
//
// x-off is how many times as long a run takes, us/sink the time added by each call of a sink, and
// us/run the time of a run. Each is from medians.
func BenchmarkFlow(b *testing.B) {
	const labelled, plain = "m = mail.list()\n", "m = desk.lookup({'id': 1})\n"
	for _, bench := range []struct {
		name, code string
		sinks      int
		action     flow.Action
		shadows    int64
	}{
		{"no labels", plain, 10, flow.Deny, 0},
		{"no sink", labelled, 0, flow.Deny, 0},
		{"no sink, and it could", labelled + "if m[0].id == 9:\n  chat.post({})\n", 0, flow.Deny, 4},
		{"report", labelled, 10, flow.Report, 4},
		{"deny", labelled, 1, flow.Deny, 4},
		{"deny", labelled, 10, flow.Deny, 4},
		{"shadow", labelled, 1, flow.Shadow, 1},
		{"shadow", labelled, 10, flow.Shadow, 1},
	} {
		b.Run(fmt.Sprintf("%s/%d sinks", bench.name, bench.sinks), func(b *testing.B) {
			code := bench.code
			if bench.sinks > 0 {
				code += fmt.Sprintf("for i in range(%d):\n  chat.post({'i': i})\n", bench.sinks)
			}
			on, off := newFlowRig(b, withAction(bench.action)), newFlowRig(b)
			off.composer.cfg.Flow = nil
			once := func(r *flowRig) (took time.Duration, fuel uint64) {
				begun := time.Now()
				run := r.run(b, code+"return 1")
				if run.class != "" || len(run.sent("chat.post")) != bench.sinks {
					b.Fatal(string(run.reply.Result))
				}
				return time.Since(begun), run.record.Outcome.Fuel
			}
			once(on) // the script is compiled, and the reach is known
			once(off)
			on.shadows.Store(0)
			var with, without []time.Duration
			fuel, runs := uint64(0), 0
			for b.Loop() {
				for range 20 {
					took, used := once(on)
					with, fuel, runs = append(with, took), used, runs+1
					took, _ = once(off)
					without = append(without, took)
				}
			}
			if got := on.shadows.Load(); got != bench.shadows*int64(runs) {
				b.Errorf("%d shadows of %d runs, want %d of each", got, runs, bench.shadows)
			}
			m, base := median(with), median(without)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(m.Nanoseconds())/1000, "us/run")
			b.ReportMetric(float64(m)/float64(base), "x-off")
			if bench.sinks > 0 {
				b.ReportMetric(float64((m-base).Nanoseconds())/1000/float64(bench.sinks), "us/sink")
			}
			b.ReportMetric(float64(bench.shadows), "shadows/run")
			b.ReportMetric(float64(fuel), "fuel/run")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
