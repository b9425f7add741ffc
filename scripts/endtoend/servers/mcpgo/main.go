// Command mcpgo is a server built with mcp-go, for both eras of the protocol, over stdio and over
// HTTP. The handlers are written for the newer era; mcp-go asks older clients the questions that
// the handlers return.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// uri differs between servers started at once.
var uri = "e2e://" + os.Getenv("E2E_UPSTREAM") + "/note"

func main() {
	address := flag.String("http", "", "serve HTTP at this address instead of stdio")
	flag.Parse()
	srv := newServer()
	if *address == "" {
		if err := server.ServeStdio(srv); err != nil {
			log.Fatal(err)
		}
		return
	}
	log.Fatal(server.NewStreamableHTTPServer(srv, server.WithStateful(true)).Start(*address))
}

func newServer() *server.MCPServer {
	srv := server.NewMCPServer("mcpgo", "1",
		server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithPromptCapabilities(true), server.WithElicitation())
	srv.AddTool(mcp.NewTool("echo", mcp.WithDescription("Say what was said"), mcp.WithString("text", mcp.Required())), echo)
	srv.AddTool(mcp.NewTool("ask", mcp.WithDescription("Ask for a name and greet")), ask)
	srv.AddTool(mcp.NewTool("count", mcp.WithDescription("Report progress to a number"), mcp.WithNumber("to", mcp.Required())), count)
	srv.AddTool(mcp.NewTool("grow", mcp.WithDescription("Add a tool")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		srv.AddTool(mcp.NewTool("grown", mcp.WithDescription("Say what was said"), mcp.WithString("text", mcp.Required())), echo)
		return mcp.NewToolResultText("grew"), nil
	})
	srv.AddResource(mcp.NewResource(uri, "note"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: "a note"}}, nil
	})
	srv.AddPrompt(mcp.NewPrompt("greet", mcp.WithArgument("name", mcp.RequiredArgument())), greet)
	return srv
}

func echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("said: " + req.GetString("text", "")), nil
}

func ask(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer := server.ElicitationResponse(req.Params.InputResponses, "name"); answer != nil {
		content, _ := answer.Content.(map[string]any)
		return mcp.NewToolResultText(fmt.Sprintf("%s, %v", answer.Action, content["name"])), nil
	}
	form := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
	question := mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "What is your name?", RequestedSchema: form}
	return server.NewInputRequestBuilder("asked once").Elicit("name", question).ToolResult(), nil
}

func count(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	to := req.GetInt("to", 0)
	if meta := req.Params.Meta; meta != nil && meta.ProgressToken != nil {
		for i := range to {
			note := map[string]any{"progressToken": meta.ProgressToken, "progress": i + 1, "total": to}
			if err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", note); err != nil {
				return nil, err
			}
		}
	}
	return mcp.NewToolResultText(fmt.Sprint("counted to ", to)), nil
}

func greet(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Greet "+req.Params.Arguments["name"])),
	}), nil
}
