// Command gosdk is a server built with the Go SDK. Over stdio both eras of the protocol are served;
// over HTTP sessions of the older era, or with -stateless the newer era. The handlers are written
// for the newer era; the SDK asks older clients the questions that the handlers return.
//
// The programs next to this one offer the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// uri differs between servers started at once.
var uri = "e2e://" + os.Getenv("E2E_UPSTREAM") + "/note"

func main() {
	address := flag.String("http", "", "serve HTTP at this address instead of stdio")
	stateless := flag.Bool("stateless", false, "serve 2026-07-28 over HTTP")
	flag.Parse()
	server := newServer()
	if *address == "" {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
			log.Fatal(err)
		}
		return
	}
	options := &mcp.StreamableHTTPOptions{Stateless: *stateless}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	log.Fatal(http.ListenAndServe(*address, handler))
}

func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Say what was said"}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "ask", Description: "Ask for a name and greet"}, ask)
	mcp.AddTool(server, &mcp.Tool{Name: "count", Description: "Report progress to a number"}, count)
	mcp.AddTool(server, &mcp.Tool{Name: "grow", Description: "Add a tool"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(server, &mcp.Tool{Name: "grown", Description: "Say what was said"}, echo)
		return text("grew"), nil, nil
	})
	server.AddResource(&mcp.Resource{URI: uri, Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: "a note"}}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}}, greet)
	return server
}

type said struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in said) (*mcp.CallToolResult, any, error) {
	return text("said: " + in.Text), nil, nil
}

func ask(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
	if answer, ok := req.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
		return text(fmt.Sprintf("%s, %v", answer.Action, answer.Content["name"])), nil, nil
	}
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
		"name": &mcp.ElicitParams{Message: "What is your name?", RequestedSchema: form},
	}}, nil, nil
}

func count(ctx context.Context, req *mcp.CallToolRequest, in struct {
	To int `json:"to"`
}) (*mcp.CallToolResult, any, error) {
	if token := req.Params.GetProgressToken(); token != nil {
		for i := range in.To {
			note := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: float64(in.To)}
			if err := req.Session.NotifyProgress(ctx, note); err != nil {
				return nil, nil, err
			}
		}
	}
	return text(fmt.Sprint("counted to ", in.To)), nil, nil
}

func greet(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: "Greet " + req.Params.Arguments["name"]}},
	}}, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
