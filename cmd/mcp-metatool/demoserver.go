package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// demoServer is a small MCP server whose tools are functions. Package front implements
// the protocol, as it does for agents.
type demoServer []demoTool

// demoTool is one tool of a demoServer.
type demoTool struct {
	definition string // raw JSON
	// call returns the structured content of the result. progress may be called with
	// the number of steps done, the total number, and a message.
	call func(ctx context.Context, args []byte, progress func(done, total int, message string)) (any, error)
}

func (t demoTool) name() string {
	name, _ := wire.GetString([]byte(t.definition), "name")
	return name
}

func demoNames() []string { return slices.Sorted(maps.Keys(demoServers)) }

func demoServerCommand() *cobra.Command {
	names := demoNames()
	return &cobra.Command{
		Use:       "demo-upstream NAME",
		Short:     "Serve one of the demo's upstream servers: " + strings.Join(names, ", "),
		Hidden:    true,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return clients.ServeStdio(cmd.Context(), struct{ io.Reader }{os.Stdin}, os.Stdout, clients.Options{
				Backend: demoServers[args[0]], Name: args[0], Version: "1.0.0",
				Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			})
		},
	}
}

// BeginSession implements clients.Backend.
func (s demoServer) BeginSession(context.Context, route.Session) (route.InitializeResult, error) {
	return route.InitializeResult{Capabilities: []byte(`{"tools":{}}`)}, nil
}

// AwaitServers implements clients.Backend.
func (demoServer) AwaitServers(context.Context, route.Session) {}

// Discover implements clients.Backend.
func (s demoServer) Discover(route.Session) route.InitializeResult {
	return route.InitializeResult{Capabilities: []byte(`{"tools":{}}`)}
}

// Begin implements clients.Backend.
func (s demoServer) Begin(route.Session) {}

// Hints implements clients.Backend. The tools never change.
func (s demoServer) Hints(call route.Call) *envelope.Hints {
	if call.Method == wire.Tools.ListMethod() {
		return &envelope.Hints{TTL: time.Hour.Milliseconds(), Scope: envelope.ScopePublic}
	}
	return nil
}

// HeaderParams implements clients.Backend.
func (s demoServer) HeaderParams(route.Session, string) envelope.Params { return envelope.Params{} }

// Notified implements clients.Backend.
func (s demoServer) Notified(route.Session, string, []byte) {}

// EndSession implements clients.Backend.
func (s demoServer) EndSession(route.Session) {}

// Handle implements clients.Backend.
func (s demoServer) Handle(ctx context.Context, call route.Call) wire.Reply {
	switch call.Method {
	case wire.Tools.ListMethod():
		definitions := make([]json.RawMessage, len(s))
		for i, t := range s {
			definitions[i] = json.RawMessage(t.definition)
		}
		return wire.Reply{Result: wire.Marshal(demoTools{definitions})}
	case protocol.MethodToolsCall:
		return s.call(ctx, call)
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", call.Method).Raw()}
}

// call answers tools/call.
func (s demoServer) call(ctx context.Context, call route.Call) wire.Reply {
	name, _ := wire.GetString(call.Params, "name")
	i := slices.IndexFunc(s, func(t demoTool) bool { return t.name() == name })
	if i < 0 {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s", name).Raw()}
	}
	args, ok := wire.Get(call.Params, "arguments")
	if !ok {
		args = []byte("{}")
	}
	value, err := s[i].call(ctx, args, func(done, total int, message string) {
		if call.Progress != nil {
			call.Progress(wire.Marshal(demoProgress{done, total, message}))
		}
	})
	if err != nil {
		return wire.Reply{Result: route.ErrorResult(err.Error())}
	}
	text := wire.Marshal(value)
	return wire.Reply{Result: wire.Marshal(demoResult{
		Content:           []demoText{{"text", string(text)}},
		StructuredContent: value,
	})}
}

type demoTools struct {
	Tools []json.RawMessage `json:"tools"`
}

type demoProgress struct {
	Progress int    `json:"progress"`
	Total    int    `json:"total"`
	Message  string `json:"message"`
}

type demoResult struct {
	Content           []demoText `json:"content"`
	StructuredContent any        `json:"structuredContent"`
}

type demoText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
