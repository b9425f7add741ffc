package compose

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// followS follows the tools of the server s: "other" is private, "remove" a public sink.
func followS(t *testing.T) func(*Options) {
	box := sandboxtest.Guest(t)
	return func(o *Options) {
		o.Flow = &Flow{
			Settings: flow.Settings{
				Private: []string{"s.other"}, Public: []string{"s.remove"}, Action: flow.Deny, Again: flow.CompareAgain,
				MaxSinkCalls: 20, Timeout: time.Minute,
			},
			Sandbox: func() (Sandbox, error) { return box, nil }, Slots: shadow.NewSlots(100),
			Definitions: func() func(server, tool string) []byte { return func(string, string) []byte { return nil } },
			Keep:        func(context.Context, string, flow.Labels) error { return nil },
		}
	}
}

// resumedScripts send the same without the answers, or not.
var resumedScripts = map[string]struct {
	code   string
	denied bool
}{
	"same":          {"a = s.other(n=1)\ns.remove(n=5)\ns.other(n=2)\ns.remove(n=6)\nreturn 'end'", false},
	"another":       {"a = s.other(n=1)\ns.remove(n=5)\ns.other(n=2)\ns.remove(n=len(a))\nreturn 'end'", true},
	"in a child":    {"a = tools.inner(n=1)\ns.remove(n=6)\nreturn 'end'", false},
	"from a child":  {"a = tools.inner(n=1)\ns.remove(n=len(a))\nreturn 'end'", true},
	"compensations": {"undo(s.remove, {\"n\": 9})\na = s.other(n=1)\nfail('enough')", false},
}

// TestFlowDurable ends processes at every event of a log. The continued run makes and refuses the
// same calls.
func TestFlowDurable(t *testing.T) {
	for name, tt := range resumedScripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := durableTool(tt.code, "")
			for events := int64(1); ; events++ {
				r := newDurableRig(t, true)
				r.change, r.saved["job"] = followS(t), def
				r.saved.add("inner", "return s.other(n=params.n)")
				_, kept := r.process(events)
				reply := r.round(asker0("2025-11-25"), def, "", "")
				whole := !kept.cut.Load()
				if !whole {
					reply = r.goOn()
				}
				text := firstText(t, reply)
				if denied := strings.Contains(text, "permission error: flow:"); denied != tt.denied {
					t.Errorf("after %d events: %s", events, text)
				}
				for call, n := range r.counts() {
					if call == "remove 1" {
						t.Errorf("after %d events: %s was made %d times", events, call, n)
					}
				}
				if whole {
					break
				}
			}
		})
	}
}

// TestFlowAfterQuestion checks runs that end to ask the client, and go on with the client's answer.
func TestFlowAfterQuestion(t *testing.T) {
	for name, tt := range map[string]struct {
		code   string
		denied bool
	}{
		"same":    {"a = s.other(n=1)\ns.remove(n=5)\nb = s.ask(q='name')\ns.remove(n=6)\nreturn 'end'", false},
		"another": {"a = s.other(n=1)\ns.remove(n=5)\nb = s.ask(q='name')\ns.remove(n=len(a))\nreturn 'end'", true},
		// The asking tool is not read-only, so the answer is blanked, too.
		"the client's answer": {"a = s.other(n=1)\nb = s.ask(q='name')\ns.remove(n=len(b))\nreturn 'end'", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newInquiry(t)
			session := &flowSession{}
			r.restart(followS(t), func(o *Options) { o.Flow.Session = func(route.Origin) shadow.Session { return session } })
			def := saved(tt.code)
			r.saved["job"] = def
			state, questions := r.asked(r.round(asker(), def, "", ""))
			if session.labels != flow.Of(flow.Private) || session.flagged { // the question may contain data of the run
				t.Errorf("when the question is sent, the session has the labels %q, flagged: %v", session.labels, session.flagged)
			}
			reply := r.round(asker(), def, state, answers(questions))
			if denied := strings.Contains(firstText(t, reply), "permission error: flow:"); denied != tt.denied {
				t.Errorf("%s", reply.Result)
			}
			made := map[string]int{}
			for _, call := range r.up.calls() {
				made[call]++
			}
			for call, n := range made {
				if n > 1 && !strings.Contains(call, `"ask"`) {
					t.Errorf("%s was made %d times", call, n)
				}
			}
			if fmt.Sprint(made) == "" {
				t.Error("no calls")
			}
		})
	}
}
