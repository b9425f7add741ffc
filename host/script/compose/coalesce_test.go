package compose

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// TestProgressInterval checks a call with a report every 110 ms: the first report is sent at once,
// then the last report of each interval, and the rest when the run ends.
func TestProgressInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var sent []string
		p := &progress{interval: progressInterval, send: func(params []byte) {
			value, _ := wire.Get(params, "progress")
			sent = append(sent, fmt.Sprintf("%dms %s", time.Since(begin).Milliseconds(), value))
		}}
		part := p.begin("s.t", 0)
		report := part.reporter(journal.Open(journal.Begin{}).OpenCall(abi.ToolCall{}, "s", "t"))
		for i := range 12 {
			report(fmt.Appendf(nil, `{"progress":%d,"total":16}`, i+1))
			<-time.After(110 * time.Millisecond)
		}
		<-time.After(2 * time.Second) // nothing new: nothing is sent
		part.finish()
		p.script(abi.Progress{Progress: 40})
		p.script(abi.Progress{Progress: 50})
		p.close()
		<-time.After(2 * time.Second)
		want := "0ms 0.0625, 500ms 0.3125, 1000ms 0.625, 1500ms 0.75, 3320ms 1, 3320ms 50"
		if got := strings.Join(sent, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestLastProgressComesBeforeTheResult checks runs with an end within an interval.
func TestLastProgressComesBeforeTheResult(t *testing.T) {
	for name, outcome := range map[string]func() (sandbox.Outcome, error){
		"success": func() (sandbox.Outcome, error) { return ok(`1`) },
		"failure": func() (sandbox.Outcome, error) {
			return sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "broken"}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u upstreams
			u.add("s.steps", func(_ context.Context, _ []byte, progress func([]byte)) wire.Reply {
				for i := range 10 {
					progress(fmt.Appendf(nil, `{"progress":%d,"total":10}`, i+1))
				}
				return wire.Reply{Result: []byte(`{"content":[]}`)}
			})
			script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
				r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "steps", `{}`)})
				return outcome()
			})
			c := composer(script, &u)
			c.progressInterval = time.Hour
			var s sink
			c.CallSaved(t.Context(), saved(""), route.Call{Params: params(`{}`), Progress: s.send})
			if got := s.rising(t); len(got) != 2 || got[0] != 0.1 || got[1] != 1 {
				t.Errorf("values %v, want the first and the last", got)
			}
		})
	}
}
