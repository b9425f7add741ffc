package stateless

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// asking is a backend with a single tool, which asks for roots and returns them.
type asking struct{ *simulation }

func (asking) Handle(ctx context.Context, call route.Call) wire.Reply {
	reply, err := call.Origin.Ask(ctx, wire.Call{Method: protocol.MethodRootsList})
	if err != nil {
		return fail(wire.CodeInternal, "%v", err)
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"got":%s}`, reply.Result)}
}

// FuzzRetry sends any state and any answers for a parked call. Only the right state is accepted.
// All other states, for this request and for another request, are refused with the same words.
func FuzzRetry(f *testing.F) {
	f.Add("", "{}", false)
	f.Add("AQ", `{"q1":{"roots":[]}}`, false)
	f.Add(strings.Repeat("A", 100), `{"q1":{"roots":[]}}`, true)
	f.Add("$", `{"q1":{"roots":[]}}`, false)
	f.Add("$", `{"q1":{"roots":[]}}`, true)
	f.Add("$", `{"q1":7}`, false)
	f.Add("$A", `[]`, false)
	f.Fuzz(func(t *testing.T, state, answers string, other bool) {
		if !json.Valid([]byte(answers)) || !utf8.ValidString(answers) {
			t.Skip() // not a message at all
		}
		p := New(t.Context(), Options{Backend: asking{}, Log: slog.New(slog.DiscardHandler)})
		sim := &simulation{principal: p}
		c := rpc.New(t.Context(), rpc.Options{Peer: rpc.Client, Main: &simulatedRequest{}, Handler: sim, SharedIDs: true})
		defer func() {
			c.Close(wire.ErrClosed)
			p.Close(closeTime)
		}()
		first := ask(c, "t", "")
		right, _ := wire.GetString(first, "result", "requestState")
		name, sent := "t", strings.ReplaceAll(state, "$", right)
		if other {
			name = "u"
		}
		answer := string(ask(c, name, fmt.Sprintf(`,"requestState":%s,"inputResponses":%s`, wire.Quote(sent), answers)))
		const refused = `"message":"requestState is not valid for this request (begin again without it)"`
		if (sent != right || other) && !strings.Contains(answer, refused) && !strings.Contains(answer, `"code":-32602,"message":"invalid params: `) {
			t.Errorf("the state %q was accepted: %s", sent, answer)
		}
		if sent == right && !other && strings.Contains(answer, refused) {
			t.Errorf("the right state was refused: %s", answer)
		}
	})
}

// ask sends a request and returns the answer.
func ask(c *rpc.Conn, name, members string) []byte {
	s := &answerStream{answer: make(chan []byte, 1)}
	c.Receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q%s}}`, name, members), s)
	return <-s.answer
}

// answerStream passes the answer on.
type answerStream struct {
	simulatedRequest
	answer chan []byte
}

func (s *answerStream) Finish(f rpc.Frame) {
	s.answer <- f.Data
	f.Done(rpc.Written, nil)
}

const closeTime = 1 << 40

func (asking) Begin(route.Session)              {}
func (asking) EndSession(route.Session)         {}
func (asking) Hints(route.Call) *envelope.Hints { return nil }
