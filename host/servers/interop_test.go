package servers

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// TestMCPGoServers checks that an upstream finds the right transport for servers of
// mcp-go over streamable HTTP and over HTTP with SSE, and works with both.
func TestMCPGoServers(t *testing.T) {
	t.Parallel()
	s := server.NewMCPServer("interop", "1", server.WithToolCapabilities(true), server.WithElicitation())
	s.AddTool(mcp.NewTool("work"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := s.SendNotificationToClient(ctx, "notifications/progress",
				map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": i}); err != nil {
				return nil, err
			}
		}
		res, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "who?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}})
		if err != nil { // its HTTP with SSE has no elicitation
			return mcp.NewToolResultText("no client"), nil
		}
		return mcp.NewToolResultText(string(res.Action)), nil
	})
	streamable := httptest.NewServer(server.NewStreamableHTTPServer(s))
	defer streamable.Close()
	old := httptest.NewServer(server.NewSSEServer(s))
	defer old.Close()
	for _, tt := range []struct{ name, url, protocol, want string }{
		{"streamable HTTP", streamable.URL + "/mcp", ProtocolLegacy, "decline"},
		{"stateless", streamable.URL + "/mcp", ProtocolAuto, "no client"}, // the call is made for no client that could be asked
		{"HTTP with SSE", old.URL + "/sse", ProtocolAuto, "no client"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done := make(chan struct{}, 10)
			u := Start(Spec{Name: "go", URL: tt.url, Protocol: tt.protocol}, Options{
				InitializeParams: func(context.Context) ([]byte, error) {
					return ClientParams{Name: "t", Version: "1", Capabilities: []byte(`{"elicitation":{}}`)}.Params(), nil
				},
				OnRequest: func(_ context.Context, m wire.Inbound) wire.Reply {
					if o := m.Owners(); m.Method != "elicitation/create" || len(o) != 1 || o[0] != "me" {
						t.Errorf("asked %s for %v", m.Method, o)
					}
					return wire.Reply{Result: []byte(`{"action":"decline"}`)}
				},
				OnList: func(l List) {
					if l.Surface == wire.Tools && len(l.Items) != 1 {
						t.Errorf("%d tools", len(l.Items))
					}
					done <- struct{}{}
				},
			})
			defer u.Close(t.Context())
			call := linktest.ToolCall("work")
			call.Owner = "me"
			call.Progress = func([]byte) {} // mcp-go sends some of it after the answer; that is dropped
			if got := linktest.FormatOutcome(u.Call(t.Context(), call)); !strings.Contains(got, `"content":[{"type":"text","text":"`+tt.want+`"}]`) {
				t.Errorf("got %s", got)
			}
			if stateless := u.Status().ProtocolVersion == "2026-07-28"; stateless != (tt.name == "stateless") {
				t.Errorf("%+v", u.Status())
			}
			<-done
		})
	}
}
