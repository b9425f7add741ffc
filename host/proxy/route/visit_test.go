package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// bridged makes a bridge for a client of the handshake era that answers every question with an
// action, and an upstream with the given further replies. The last reply repeats.
func bridged(action string, replies ...string) (b *bridge, s *fakeSession, calls *int) {
	calls = new(int)
	s = &fakeSession{params: `{"capabilities":` + allInputs + `}`}
	s.asked = func(_ context.Context, call wire.Call) (wire.Reply, error) {
		id, _ := wire.GetString(call.Params, "elicitationId")
		s.tell(fmt.Sprint("asked ", call.Method, " ", id != ""))
		return wire.Reply{Result: fmt.Appendf(nil, `{"action":%q}`, action)}, nil
	}
	return &bridge{server: "a", origin: s, again: func(_ context.Context, in wire.Inputs) (wire.Reply, error) {
		s.tell("inputs " + string(in.Responses))
		r := reply(replies[min(*calls, len(replies)-1)])
		*calls++
		r.Stateless = true
		return r, nil
	}}, s, calls
}

// TestBridgeVisits checks that a user of the handshake era is sent to a page once, while the
// upstream of the stateless era is asked again and again whether the visit is over, and that the
// client is told about the end.
func TestBridgeVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := asking(`"x":`+visit, "s")
		b, s, _ := bridged("accept", again, again, asking(`"x":`+visit+`,"y":`+form, ""), asking(`"z":`+form, ""), `{"resultType":"complete"}`)
		begin := time.Now()
		r, err := b.finish(t.Context(), wire.Reply{Result: []byte(again), Stateless: true})
		if err != nil || string(r.Result) != `{"resultType":"complete"}` {
			t.Fatalf("%s, %v", r.Result, err)
		}
		if took := time.Since(begin); took != 3*time.Second { // 1 and 2
			t.Errorf("after %v", took)
		}
		heard := s.heard()
		const visited, accepts = "notifications/elicitation/complete ", `{"action":"accept"}`
		for i, what := range heard {
			if strings.HasPrefix(what, visited) {
				heard[i] = visited
			}
		}
		want(t, "client and upstream", heard,
			"asked elicitation/create true", `inputs {"x":`+accepts+`}`,
			`inputs {"x":`+accepts+`}`,
			`inputs {"x":`+accepts+`}`,
			"asked elicitation/create false", `inputs {"x":`+accepts+`,"y":`+accepts+`}`,
			visited,
			"asked elicitation/create false", `inputs {"z":`+accepts+`}`)
	})
}

// TestBridgeVisitsAreBounded checks that the wait for a visit ends, how many calls the wait takes,
// and a user who refuses is asked as often as for anything else.
func TestBridgeVisitsAreBounded(t *testing.T) {
	for action, want := range map[string]struct {
		calls int
		takes time.Duration
		text  string
	}{
		"accept":  {64, 10*time.Minute + 5*time.Second, "still waits for the user to visit a page after 10m0s"},
		"decline": {maxRounds, 0, "asked the client something 9 times in a row"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s, calls := bridged(action, asking(`"x":`+visit, "s"))
			begin := time.Now()
			_, err := b.finish(t.Context(), wire.Reply{Result: []byte(asking(`"x":`+visit, "s")), Stateless: true})
			var bad *inputError
			if !errors.As(err, &bad) || !strings.Contains(bad.text, want.text) {
				t.Errorf("%s: %v", action, err)
			}
			if took := time.Since(begin); *calls != want.calls || took != want.takes {
				t.Errorf("%s: %d calls in %v", action, *calls, took)
			}
			if heard := strings.Join(s.heard(), " "); strings.Contains(heard, "complete") {
				t.Errorf("%s: %s", action, heard)
			}
		})
	}
}

// TestVisits checks the replies to a client of the stateless era that repeats a request whose
// server of the handshake era wants the user to visit a page.
func TestVisits(t *testing.T) {
	const wants = `{"code":-32042,"message":"log in","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"go"}]}}`
	const complete = "notifications/elicitation/complete"
	for _, tt := range []struct {
		name, method, action string
		replies              []string      // of the server to the repeated request
		announced            time.Duration // after which the server says so; 0: never
		want                 string        // part of the answer
		calls                int
		takes                time.Duration
	}{
		{"it is over", "tools/call", "accept", []string{`{"ok":1}`}, 0, `{"ok":1}`, 1, 0},
		{"the end is announced", "prompts/get", "accept", []string{wants, `{"ok":1}`}, 7 * time.Second, `{"ok":1}`, 2, 7 * time.Second},
		{"nothing is announced", "resources/read", "accept", []string{wants, `{"ok":1}`}, 0, `{"ok":1}`, 2, visitWait},
		{"it goes on", "tools/call", "accept", []string{wants}, 0, `"input_required"`, 2, visitWait},
		{"the user refuses", "tools/call", "decline", []string{wants}, 0, `the user has not agreed: log in"}],"isError":true`, 1, 0},
		{"the user refuses a prompt", "prompts/get", "cancel", []string{wants}, 0, `"message":"prompts/get: the server needs the user to visit a page first, and the user has not agreed: log in"`, 1, 0},
		{"the user refuses, but it is over", "tools/call", "decline", []string{`{"ok":1}`}, 0, `{"ok":1}`, 1, 0},
		{"no answer", "tools/call", "", []string{wants}, 0, `"input_required"`, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := eras(t, stateless, `{"elicitation":{"url":{}}}`)
			up.on(tt.method, wants)
			params := requests[tt.method]
			got := []byte(g.ask(s, tt.method, "{"+params+"}"))
			state, _ := wire.GetString(got, "requestState")
			asked, _ := wire.Get(got, "inputRequests")
			all, _ := wire.Members(asked)
			if len(all) != 1 {
				t.Fatalf("%s: asked %s", tt.name, got)
			}
			calls := 0
			up.answer[tt.method] = func(context.Context, wire.Call) (wire.Reply, error) {
				r := reply(tt.replies[min(calls, len(tt.replies)-1)])
				calls++
				return r, nil
			}
			if tt.announced > 0 {
				go func() {
					g.notice("a", complete, `{"elicitationId":"other"}`)
					time.Sleep(tt.announced)
					g.notice("a", complete, `{"elicitationId":"e"}`)
				}()
			}
			params += `,"requestState":"` + state + `"`
			if tt.action != "" {
				params += `,"inputResponses":{"` + all[0].Name + `":{"action":"` + tt.action + `"}}`
			}
			begin := time.Now()
			answer := g.ask(s, tt.method, "{"+params+"}")
			if took := time.Since(begin); !strings.Contains(answer, tt.want) || calls != tt.calls || took != tt.takes {
				t.Errorf("%s: %d calls in %v, answer %s", tt.name, calls, took, answer)
			}
			synctest.Wait()
		})
	}
}

// TestVisitIsCancelled checks that the wait for a visit ends with the request, and an end of a
// visit before the repeated request is not forgotten.
func TestVisitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, s := eras(t, stateless, `{"elicitation":{"url":{}}}`)
		g.router.noteElicitation(s, elicitation{"a", "e"})
		call := Call{Method: "tools/call", Origin: s, visits: `["e"]`, inputs: wire.Inputs{Responses: []byte(`{"k":{"action":"accept"}}`)}}
		wants := wire.Reply{Error: []byte(`{"code":-32042,"message":"m"}`)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if g.router.awaitVisits(ctx, call, wants) || time.Since(begin) != time.Second {
			t.Errorf("cancelled: after %v", time.Since(begin))
		}
		g.notice("a", "notifications/elicitation/complete", `{"elicitationId":"e"}`)
		if !g.router.awaitVisits(t.Context(), call, wants) || time.Since(begin) != time.Second {
			t.Errorf("announced before: after %v", time.Since(begin))
		}
	})
}

// TestVisitsAreBounded checks that a server cannot make a client's user visit any number of pages
// at once.
func TestVisitsAreBounded(t *testing.T) {
	const visit = `{"mode":"url","elicitationId":"e","url":"https://x","message":"go"}`
	for _, n := range []int{maxQuestions, maxQuestions + 1} {
		g, up, s := eras(t, stateless, `{"elicitation":{"url":{}}}`)
		up.on("tools/call", `{"code":-32042,"message":"log in","data":{"elicitations":[`+strings.Repeat(visit+",", n-1)+visit+`]}}`)
		got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
		asked, _ := wire.Get([]byte(got), "inputRequests")
		all, _ := wire.Members(asked)
		refused := got == `{"code":-32603,"message":"tools/call: the server asks for visits of more than 32 pages at once"}`
		if refused != (n > maxQuestions) || !refused && len(all) != n {
			t.Errorf("%d: %.300s", n, got)
		}
	}
}
