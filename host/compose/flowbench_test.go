package compose

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/flow"
)

// BenchmarkFlow makes runs with ten calls of a sink: without information flow, without a labelled
// answer, with one, and with action "shadow", which needs one shadow in place of four.
func BenchmarkFlow(b *testing.B) {
	const calls = "for i in range(10):\n  chat.post({'i': i})\nreturn 1"
	for _, bench := range []struct {
		name, code string
		change     func(*flowRig, *Options)
		off        bool
	}{
		{name: "off", code: "m = mail.list()\n" + calls, off: true},
		{name: "no labels", code: "m = desk.lookup({'id': 1})\n" + calls},
		{name: "labels", code: "m = mail.list()\n" + calls},
		{name: "shadow", code: "m = mail.list()\n" + calls, change: func(r *flowRig, _ *Options) { r.settings.Action = flow.Shadow }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := newFlowRig(b, func(r *flowRig, o *Options) {
				if bench.change != nil {
					bench.change(r, o)
				}
			})
			if bench.off {
				r.composer.cfg.Flow = nil
			}
			fuel := uint64(0)
			for b.Loop() {
				run := r.run(b, bench.code)
				if run.class != "" || len(run.sent("chat.post")) != 10 {
					b.Fatal(string(run.reply.Result))
				}
				fuel = run.record.Outcome.Fuel
			}
			b.ReportMetric(float64(r.shadows.Load())/float64(b.N), "shadows/op")
			b.ReportMetric(float64(fuel), "fuel/op")
		})
	}
}
