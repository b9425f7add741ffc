package route

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// FuzzTaskID asks about a task with any id, as the task's own principal and as another. Only the
// right id of the right principal reaches the upstream, and all other requests are refused with the
// same words. $ stands for the right id.
func FuzzTaskID(f *testing.F) {
	for _, id := range []string{"$", "", "own", "a\x00own", "$A", "A$", "$$", " $", "$\n", "ext-1", "0"} {
		f.Add(id, false, uint8(0))
		f.Add(id, true, uint8(1))
	}
	methods := []string{"tasks/get", "tasks/update", "tasks/cancel"}
	f.Fuzz(func(t *testing.T, id string, foreign bool, which uint8) {
		if !utf8.ValidString(id) {
			t.Skip() // not a message at all
		}
		g, up, s := taskRig(t, stateless, tasksDeclared)
		up.stateless("tools/call", created)
		for _, method := range methods {
			up.stateless(method, `{"resultType":"complete","taskId":"own"}`)
		}
		right := g.madeTask(s)
		up.sent()
		who, sent, method := s, strings.ReplaceAll(id, "$", right), methods[int(which)%len(methods)]
		if foreign {
			who = g.session("other", tasksDeclared)
			who.old = stateless
		}
		got := g.ask(who, method, `{"taskId":`+string(wire.Quote(sent))+`,"inputResponses":{}}`)
		reached := up.sent()
		if sent == right && !foreign {
			if !strings.Contains(got, `"resultType":"complete"`) || len(reached) != 1 || !strings.Contains(reached[0], `"taskId":"own"`) {
				t.Errorf("%s: the task was not reached: %s, %q", method, got, reached)
			}
			return
		}
		if got != `{"code":-32602,"message":"`+method+`: there is no such task"}` || len(reached) > 0 {
			t.Errorf("%s %q: %s, %q", method, sent, got, reached)
		}
	})
}

// FuzzRelayedState repeats a request with any state and any further members, as the asked principal
// and as another. Only the right state of the right request reaches the upstream, and all other
// requests are refused with the same words. $ stands for the right state.
func FuzzRelayedState(f *testing.F) {
	for _, state := range []string{"$", "", "s1", "$A", "A$", "$$", "\u0000$"} {
		for _, more := range []string{"", `,"more":1`, `,"arguments":{"n":1.0}`, `,"_meta":{"a":1}`} {
			f.Add(state, more, false, uint8(0))
			f.Add(state, more, true, uint8(1))
			f.Add(state, more, false, uint8(2))
		}
	}
	methods := []string{"tools/call", "prompts/get", "resources/read"}
	f.Fuzz(func(t *testing.T, state, more string, foreign bool, which uint8) {
		method := methods[int(which)%len(methods)]
		params := "{" + requests[method] + more + "}"
		if !utf8.ValidString(state) || !wire.IsObject([]byte(params)) || strings.Contains(more, "requestState") || strings.Contains(more, "inputResponses") {
			t.Skip()
		}
		if _, err := wire.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":` + params + `}`)); err != nil {
			t.Skip() // refused before this step
		}
		g, up, s := eras(t, stateless, `{"roots":{}}`)
		up.stateless(method, asking(`"a":`+roots, "s1"), `{"resultType":"complete","x":1}`)
		right, ok := wire.GetString([]byte(g.ask(s, method, "{"+requests[method]+"}")), "requestState")
		if !ok {
			t.Fatal("no state")
		}
		up.inputs()
		who, sent := s, strings.ReplaceAll(state, "$", right)
		if foreign {
			who = g.session("other", `{"roots":{}}`)
			who.old = stateless
		}
		retry, err := wire.Set([]byte(params), wire.Quote(sent), "requestState")
		if err != nil {
			t.Skip()
		}
		got := g.ask(who, method, string(retry))
		reached := up.inputs()
		same := more == "" || strings.HasPrefix(more, `,"_meta"`)
		if sent == right && !foreign && same {
			if len(reached) != 1 || !strings.Contains(reached[0], `"s1"`) {
				t.Errorf("%s: the upstream did not get its state: %s, %q", method, got, reached)
			}
			return
		}
		const refused = `requestState is not valid for this request (begin again without it)`
		if (sent != right || foreign) && (!strings.Contains(got, refused) || len(reached) > 0) {
			t.Errorf("%s %q %s: %s, %q", method, sent, more, got, reached)
		}
	})
}
