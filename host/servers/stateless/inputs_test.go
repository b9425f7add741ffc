package stateless_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// asking is a link with a server with the same reply to every request.
type asking struct {
	link.Link
	reply wire.Reply
	err   error
	sent  []byte // params of the last request
}

func (a *asking) CallWithin(_ context.Context, call wire.Call, _ rpc.Limit) (wire.Reply, error) {
	a.sent = call.Params
	return a.reply, a.err
}

func (a *asking) Submit(call wire.Call, _ rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	a.sent = call.Params
	complete(a.reply, nil)
	return rpc.Pending{}, nil
}

// TestInputs checks that the answers to questions are sent unchanged with the state, and that
// replies are marked as possible questions.
func TestInputs(t *testing.T) {
	newest := protocol.Stateless.Newest()
	for _, tt := range []struct {
		name             string
		in               wire.Inputs
		responses, state string // in the request; "" for none
	}{
		{"none", wire.Inputs{}, "", ""},
		{"answers", wire.Inputs{Responses: []byte(`{"q":{"n":9007199254740993}}`)}, `{"q":{"n":9007199254740993}}`, ""},
		{"state", wire.Inputs{State: []byte(`"a\u0062"`)}, "", `"a\u0062"`},
		{"both", wire.Inputs{Responses: []byte(`{}`), State: []byte(`"s"`)}, `{}`, `"s"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			below := &asking{reply: wire.Reply{Result: []byte(`{"resultType":"input_required"}`)}}
			l := stateless.New(below, newest, stateless.Options{Upstream: "x"})
			call := wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"t"}`), Inputs: tt.in}
			check := func(reply wire.Reply) {
				t.Helper()
				if !reply.Stateless {
					t.Error("the reply is not marked")
				}
				responses, _ := wire.Get(below.sent, "inputResponses")
				state, _ := wire.Get(below.sent, "requestState")
				if string(responses) != tt.responses || string(state) != tt.state {
					t.Errorf("sent %s", below.sent)
				}
			}
			reply, err := l.CallWithin(t.Context(), call, rpc.Limit{})
			if err != nil {
				t.Fatal(err)
			}
			check(reply)
			below.sent = nil
			if _, err := l.Submit(call, rpc.Limit{}, func(reply wire.Reply, next wire.Continuation) {
				if next != nil {
					t.Error("the reply is not there yet")
				}
				check(reply)
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestErrorsAreMarked checks that errors of a server are marked too, and that failed
// calls are not.
func TestErrorsAreMarked(t *testing.T) {
	call := wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"t"}`)}
	below := &asking{reply: wire.Reply{Error: []byte(`{"code":-32602,"message":"no"}`)}}
	l := stateless.New(below, protocol.Stateless.Newest(), stateless.Options{Upstream: "x"})
	if reply, err := l.CallWithin(t.Context(), call, rpc.Limit{}); err != nil || !reply.Stateless {
		t.Errorf("an error of the server: %+v, %v", reply, err)
	}
	if _, err := l.Submit(call, rpc.Limit{}, func(_ wire.Reply, next wire.Continuation) {
		if reply, err := next(t.Context()); err != nil || !reply.Stateless {
			t.Errorf("a submitted one: %+v, %v", reply, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	below.reply, below.err = wire.Reply{}, errors.New("lost")
	if reply, err := l.CallWithin(t.Context(), call, rpc.Limit{}); err == nil || reply.Stateless {
		t.Errorf("a lost call: %+v, %v", reply, err)
	}
}
