package host

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

// TestFlowRemembers checks that what a person has allowed for later calls counts after a reload that
// does not change [flow], and under no other [flow].
func TestFlowRemembers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(cfg *config.Config) {
		cfg.Flow.Action = flow.Ask
		cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9, Remember: time.Hour}
	})
	queue := approval.OpenQueue(h.cfg.Store.Dir, slog.New(slog.DiscardHandler))
	defer queue.Close()
	c := dial(t, h.Host)
	// asked makes a run, and decides about the call if a person is asked.
	asked := func(what string, v approval.Verdict) {
		t.Helper()
		decided := make(chan struct{})
		go func() {
			defer close(decided)
			awaitQueue(t, h.cfg.Store.Dir, queue, what, func(list []approval.Listed) bool {
				for _, e := range list {
					if e.State == approval.Open && e.Waits {
						if _, err := queue.Decide(t.Context(), e.ID, v, approval.HowQueue, time.Hour); err != nil {
							t.Error(err)
						}
						return true
					}
				}
				return false
			})
		}()
		if got := c.eval(flowLeak); strings.Contains(got, `"type":"permission"`) == v.Allow {
			t.Errorf("%s: %s", what, got)
		}
		<-decided
	}
	remembered := func(what string) {
		t.Helper()
		before := len(h.calls("chat.post"))
		if got := c.eval(flowLeak); strings.Contains(got, `"isError":true`) || len(h.calls("chat.post")) != before+1 {
			t.Errorf("%s: %s", what, got)
		}
	}
	reload := func(change func(*config.Config)) {
		t.Helper()
		next, settings := *h.cfg, *h.cfg.Flow
		next.Flow = &settings
		change(&next)
		if _, err := h.Reload(&next); err != nil {
			t.Fatal(err)
		}
	}
	asked("at first", approval.Verdict{Allow: true, By: "me", Remember: approval.ForValue})
	remembered("the same call")
	reload(func(cfg *config.Config) { cfg.Execution.Timeout += time.Second })
	remembered("after another reload")
	reload(func(cfg *config.Config) { cfg.Flow.Private = append([]string{"notes.*"}, cfg.Flow.Private...) })
	asked("after a reload with another [flow]", approval.Verdict{By: "me"})
	// The decisions are gone, too: with the first [flow], a person is asked again.
	reload(func(*config.Config) {})
	asked("with the first [flow] again", approval.Verdict{By: "me"})
}
