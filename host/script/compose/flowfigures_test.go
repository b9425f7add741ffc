package compose

import (
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

// TestFlowFigures checks that a run uses as much with [flow] as without: the usage of shadows does
// not count for the run, and answers reach the run in the same form.
func TestFlowFigures(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		shadows    int64
	}{
		{"no label", "a = desk.lookup({'id': 1})\nchat.post({'text': str(a)})\nx = 'a' * 3000000\nreturn len(x)", 0},
		{"no label, saved tools", "a = [tools.get({'n': 1}), desk.lookup({'id': 3})] + parallel([lambda: tools.get({'n': 2}), lambda: desk.lookup({'id': 3})])\nchat.post({'text': str(a)})\nreturn a", 0},
		{"no sink", "m = mail.list()\nprint(m)\nreturn [x.body for x in m]", 0},
		{"a sink", "m = mail.list()\nx = 'a' * 3000000\nfor i in range(3):\n  chat.post({'i': i})\nreturn [len(x), m]", flow.NumBlank},
		{"saved tools", "m = mail.list()\na = [tools.get({'n': i}) for i in range(2)]\ntools.send({'text': 'x'})\nreturn [m, len(a)]", flow.NumBlank},
		{"after an error", "try:\n  desk.missing({})\nexcept Exception as e:\n  print(e)\nm = mail.list()\nchat.post({})\nfail('x')", flow.NumBlank},
	} {
		t.Run(tt.name, func(t *testing.T) {
			figures := func(followed bool) (string, int64) {
				r := newFlowRig(t)
				r.save("get", "x = 'b' * 2000000\nreturn [len(x), desk.lookup({'id': params.n})]")
				r.save("send", "return chat.post({'text': params.text})")
				if !followed {
					r.composer.cfg.Flow = nil
				}
				run := r.run(t, tt.code)
				end, receipt := run.record.Outcome, get(t, run.reply, "_meta", ReceiptKey, "fuel")+get(t, run.reply, "_meta", ReceiptKey, "memory")+get(t, run.reply, "_meta", ReceiptKey, "calls")
				return fmt.Sprintf("%q: fuel %d, checked %d, memory %d, %d calls, receipt %s", run.class, end.Fuel, end.Checked, end.Memory, len(run.record.Calls), receipt), r.shadows.Load()
			}
			off, _ := figures(false)
			on, shadows := figures(true)
			if on != off || shadows != tt.shadows {
				t.Errorf("with %d shadows:\n%s\nwithout:\n%s", shadows, on, off)
			}
		})
	}
}
