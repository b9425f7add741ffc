package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const allInputs = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// asking returns a result with requests to the client.
func asking(requests, state string) string {
	result := `{"resultType":"input_required"`
	if requests != "" {
		result += `,"inputRequests":{` + requests + `}`
	}
	if state != "" {
		result += `,"requestState":"` + state + `"`
	}
	return result + "}"
}

const (
	form   = `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}`
	visit  = `{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}`
	sample = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	roots  = `{"method":"roots/list"}`
)

// TestBridge checks that a client of the handshake era is asked the questions of an upstream of the
// stateless era in the middle of the call.
func TestBridge(t *testing.T) {
	for method, params := range requests {
		g, up, s := eras(t, "2025-11-25", allInputs)
		var mu sync.Mutex
		asked := map[string]bool{}
		s.asked = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			mu.Lock()
			defer mu.Unlock()
			question := string(call.Params)
			if id, ok := wire.GetString(call.Params, "elicitationId"); ok {
				question = strings.Replace(question, id, "ID", 1)
			}
			asked[call.Method+question] = true
			return wire.Reply{Result: fmt.Appendf(nil, `{"of":%q}`, call.Method)}, nil
		}
		up.stateless(method, asking(`"a":`+form+`,"b":`+visit+`,"c":`+roots, "s1"), asking(`"d":`+sample, ""), `{"resultType":"complete","ok":true}`)
		if got := g.ask(s, method, "{"+params+"}"); got != `{"ok":true}` {
			t.Errorf("%s: %s", method, got)
		}
		want(t, method+": inputs", up.inputs(), " ",
			`{"a":{"of":"elicitation/create"},"b":{"of":"elicitation/create"},"c":{"of":"roots/list"}} "s1"`,
			`{"d":{"of":"sampling/createMessage"}} `)
		for _, question := range []string{
			`elicitation/create{"message":"m","requestedSchema":{}}`, `roots/list`, `sampling/createMessage{"messages":[],"maxTokens":1}`,
			`elicitation/create{"mode":"url","url":"https://x","message":"m","elicitationId":"ID"}`,
		} {
			if !asked[question] {
				t.Errorf("%s: %s was not asked, but %v", method, question, asked)
			}
		}
	}
}

// TestBridgeRefusals checks the answers to calls whose questions cannot be asked.
func TestBridgeRefusals(t *testing.T) {
	many := make([]string, maxQuestions+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%s`, i, roots)
	}
	for _, test := range []struct{ capabilities, asks, says string }{
		{`{}`, asking(`"a":`+form, ""), `asks the client something that it does not support (elicitation/create): method not found: the client does not support elicitation`},
		{`{"elicitation":{}}`, asking(`"a":`+visit, ""), `the client does not support mode "url"`},
		{`{}`, asking(`"a":`+sample, ""), `does not support sampling`},
		{`{}`, asking(`"a":`+roots, ""), `does not support roots`},
		{allInputs, asking(`"a":{"method":"tools/call"}`, ""), `asks the client for "tools/call", which is no question`},
		{allInputs, asking(`"a":7`, ""), `which is no question`},
		{allInputs, asking("", ""), `malformed`},
		{allInputs, `{"resultType":"input_required","inputRequests":[]}`, `malformed`},
		{allInputs, asking(strings.Join(many, ","), ""), `33 things at once (32 are allowed)`},
		{allInputs, asking(`"a":`+roots, ""), `asked the client something 9 times in a row`},
	} {
		g, up, s := eras(t, "2025-11-25", test.capabilities)
		up.stateless("tools/call", test.asks)
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), test.says) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s", test.asks, got)
		}
		if calls := len(up.inputs()); calls > maxRounds+1 {
			t.Errorf("%s: %d calls", test.asks, calls)
		}
		up.stateless("prompts/get", test.asks)
		if got := g.ask(s, "prompts/get", "{"+requests["prompts/get"]+"}"); !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), test.says) || !strings.Contains(got, `"code":-32603`) {
			t.Errorf("%s: %s", test.asks, got)
		}
	}
}

// TestBridgeClientErrors checks the effect of errors of the client.
func TestBridgeClientErrors(t *testing.T) {
	for _, test := range []struct{ asks, inputs, says string }{
		{form, `{"a":{"action":"cancel"}} `, ""},
		{sample, "", `the client refused what upstream "a" asks (sampling/createMessage): no thanks`},
		{roots, "", `(roots/list): no thanks`},
	} {
		g, up, s := eras(t, "2025-11-25", allInputs)
		s.asked = func(context.Context, wire.Call) (wire.Reply, error) {
			return wire.Reply{Error: []byte(`{"code":-1,"message":"no thanks"}`)}, nil
		}
		up.stateless("tools/call", asking(`"a":`+test.asks, ""), `{"resultType":"complete"}`)
		got := strings.ReplaceAll(g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"), `\"`, `"`)
		if inputs := up.inputs(); len(inputs) > 1 && inputs[1] != test.inputs || !strings.Contains(got, test.says) || (test.says == "") != (got == "{}") {
			t.Errorf("%s: %s, %q", test.asks, got, inputs)
		}
	}
}

// TestBridgeTimes checks the pause before a round without questions, and the limit on
// the time for an answer.
func TestBridgeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{asking("", "s1"), asking("", "s2"), `{"resultType":"complete"}`}
		var got []string
		b := bridge{server: "a", again: func(_ context.Context, in wire.Inputs) (wire.Reply, error) {
			got = append(got, string(in.State))
			r := reply(answers[0])
			r.Stateless, answers = true, answers[1:]
			return r, nil
		}}
		first := wire.Reply{Result: []byte(answers[0]), Stateless: true}
		answers = answers[1:]
		if r, err := b.finish(t.Context(), first); err != nil || string(r.Result) != `{"resultType":"complete"}` {
			t.Errorf("%s, %v", r.Result, err)
		}
		want(t, "states", got, `"s1"`, `"s2"`)

		s := &fakeSession{params: `{"capabilities":` + allInputs + `}`, asked: func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
			<-ctx.Done()
			return wire.Reply{}, context.Cause(ctx)
		}}
		b.origin = s
		if _, err := b.finish(t.Context(), wire.Reply{Result: []byte(asking(`"a":`+form+`,"b":`+roots, "")), Stateless: true}); !errors.Is(err, errAnswerWait) {
			t.Errorf("without an answer: %v", err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		for _, asks := range []string{asking(`"a":`+form, ""), asking("", "s")} {
			if _, err := b.finish(ctx, wire.Reply{Result: []byte(asks), Stateless: true}); !errors.Is(err, gone) {
				t.Errorf("%s: cancelled: %v", asks, err)
			}
		}
	})
}

// TestBridgeForScripts checks that the client is asked for calls of scripts in either era, and that
// a script without a client gets an error.
func TestBridgeForScripts(t *testing.T) {
	for _, revision := range []string{"2025-11-25", stateless} {
		g, up, s := eras(t, revision, allInputs)
		up.stateless("tools/call", asking(`"a":`+roots, "s"), `{"resultType":"complete","n":1}`)
		if r := g.router.CallUpstream(t.Context(), s.request("r"), ScriptCall{Server: "a", Tool: "t", Params: []byte(`{}`)}); string(r.Result) != `{"resultType":"complete","n":1}` {
			t.Errorf("%s: %s%s", revision, r.Result, r.Error)
		}
		want(t, revision, up.inputs(), " ", `{"a":{"client":"one","method":"roots/list"}} "s"`)
	}
	g, up, _ := eras(t, stateless, allInputs)
	up.stateless("tools/call", asking(`"a":`+roots, "s"))
	if r := g.router.CallUpstream(t.Context(), nil, ScriptCall{Server: "a", Tool: "t", Params: []byte(`{}`)}); !strings.Contains(string(r.Result), "but there is no client") {
		t.Errorf("without a client: %s%s", r.Result, r.Error)
	}
}

// TestBridgeOfSubmittedCalls checks calls without a waiting goroutine.
func TestBridgeOfSubmittedCalls(t *testing.T) {
	for _, next := range []bool{false, true} {
		g, up, s := eras(t, "2025-11-25", allInputs)
		up.stateless("tools/call", asking(`"a":`+roots, "s"), `{"resultType":"complete","n":1}`)
		c := &toolCall{router: g.router, origin: s, server: "a", tool: "t", agent: true,
			call: Call{Method: "tools/call", Origin: s, Params: []byte(`{"name":"a__t"}`)}}
		to := &fakeResponder{ctx: t.Context()}
		c.to = to
		reply, err := c.try(t.Context(), wire.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		if next {
			c.completed(wire.Reply{}, func(context.Context) (wire.Reply, error) { return reply, nil })
		} else {
			c.completed(reply, nil)
		}
		if string(to.reply.Result) != `{"n":1}` || !to.started {
			t.Errorf("%s%s, started %t", to.reply.Result, to.reply.Error, to.started)
		}
	}
}

// fakeResponder runs work at once.
type fakeResponder struct {
	ctx     context.Context
	reply   wire.Reply
	started bool
}

func (r *fakeResponder) Cancelled() bool        { return false }
func (r *fakeResponder) Reply(reply wire.Reply) { r.reply = reply }

func (r *fakeResponder) Start(work func(context.Context) wire.Reply) {
	r.started = true
	r.reply = work(r.ctx)
}
