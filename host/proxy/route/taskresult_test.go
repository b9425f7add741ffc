package route

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const required = `{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`

// TestRequiredTaskOfHandshakeEra checks that a client of the stateless era can call a tool that can
// only be called as a task of the handshake era, and gets the result.
func TestRequiredTaskOfHandshakeEra(t *testing.T) {
	for _, test := range []struct{ revision, definition, result, want, task string }{
		{stateless, required, `{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"},"n":1.0}}`, `{"content":[],"_meta":{"n":1.0}}`, `,"task":{}`},
		{stateless, required, `{"code":-32000,"message":"m"}`, `{"code":-32000,"message":"m"}`, `,"task":{}`},
		{stateless, `{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, "", `{"task":{"taskId":"x","status":"working"}}`, ""},
		{"2025-11-25", required, "", `{"task":{"taskId":"x","status":"working"}}`, ""},
	} {
		g, up, s := eras(t, test.revision, `{}`)
		g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(test.definition)}, nil)
		up.on("tools/call", `{"task":{"taskId":"x","status":"working"}}`)
		up.on("tasks/result", test.result)
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); got != test.want {
			t.Errorf("%s %s: %s", test.revision, test.definition, got)
		}
		sent := up.sent()
		if !strings.HasSuffix(sent[0], `"arguments":{"n":1}`+test.task+"}") || (len(sent) == 2) != (test.task != "") {
			t.Errorf("%s %s: sent %s", test.revision, test.definition, sent)
		}
	}
}

// TestRequiredTaskOfScript checks that a script gets the result of a tool that can only be called
// as a task, with or without a client, and the client is asked the questions of the task.
func TestRequiredTaskOfScript(t *testing.T) {
	g, up, s := eras(t, "2025-11-25", able)
	g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(required)}, nil)
	up.on("tools/call", `{"task":{"taskId":"x","status":"working"}}`)
	up.answer["tasks/result"] = func(ctx context.Context, call wire.Call) (wire.Reply, error) {
		if call.Owner == nil {
			return reply(`{"content":[],"n":1.0}`), nil
		}
		answer := g.router.OnRequest(ctx, "a", wire.Inbound{
			Method: "roots/list", Owners: owners(call.Owner),
			Params: []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}`),
		})
		return reply(`{"content":[],"asked":` + string(answer.Result) + `}`), nil
	}
	for _, test := range []struct {
		origin Origin
		want   string
	}{
		{nil, `{"content":[],"n":1.0}`},
		{s.request("r"), `{"content":[],"asked":{"client":"one","method":"roots/list"}}`},
	} {
		got := g.router.CallUpstream(t.Context(), test.origin, ScriptCall{Server: "a", Tool: "t", Params: []byte(`{"arguments":{}}`)})
		if string(got.Result) != test.want {
			t.Errorf("%s %s, want %s", got.Result, got.Error, test.want)
		}
		want(t, "sent", up.sent(), `tools/call {"arguments":{},"name":"t","task":{}}`, `tasks/result {"taskId":"x"}`)
	}
	up.on("tools/call", `{}`)
	g.router.CallUpstream(t.Context(), s, ScriptCall{Server: "a", Tool: "t", Params: []byte(`{"task":{"ttl":1}}`)})
	want(t, "sent", up.sent(), `tools/call {"task":{"ttl":1},"name":"t"}`)
}

// TestRequiredTaskCancelled checks that the task is cancelled together with the call.
func TestRequiredTaskCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, up, s := eras(t, stateless, `{}`)
		g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(required)}, nil)
		up.on("tools/call", `{"task":{"taskId":"x","status":"working"}}`)
		ctx, cancel := context.WithCancel(t.Context())
		up.answer["tasks/result"] = func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
			cancel()
			<-ctx.Done()
			return wire.Reply{}, context.Cause(ctx)
		}
		g.router.Handle(ctx, Call{Method: "tools/call", Origin: s, Params: []byte("{" + requests["tools/call"] + "}")})
		synctest.Wait()
		if sent := up.sent(); sent[len(sent)-1] != `tasks/cancel {"taskId":"x"}` {
			t.Errorf("sent %s", sent)
		}
		g.router.Close()
	})
}
