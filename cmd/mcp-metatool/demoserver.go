package main

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/front"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// demoServer is a small MCP server with tools made of plain functions. Its
// protocol is that of package front, the same that agents meet.
type demoServer []demoTool

// demoTool is one tool of a demoServer.
type demoTool struct {
	definition string // raw JSON
	// call returns the structured content of the result. progress may be
	// called with steps done, steps in all, and a message.
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
			session := front.NewSession(cmd.Context(), os.Stdout, front.Options{
				Backend: demoServers[args[0]], Name: args[0], Version: "1.0.0",
				Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			})
			return session.Serve(struct{ io.Reader }{os.Stdin})
		},
	}
}

// ListTools implements front.Backend.
func (s demoServer) ListTools(context.Context, string) (tools [][]byte, next string, err error) {
	for _, t := range s {
		tools = append(tools, []byte(t.definition))
	}
	return tools, "", nil
}

// CallTool implements front.Backend.
func (s demoServer) CallTool(ctx context.Context, call route.Call) wire.Reply {
	i := slices.IndexFunc(s, func(t demoTool) bool { return t.name() == call.Name })
	if i < 0 {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s", call.Name).Raw()}
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
