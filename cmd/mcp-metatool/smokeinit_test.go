package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/host/clients"
)

// serveReader is a server whose tools say that they only read. One of them fails, and one
// should not be called, since it needs an argument.
func serveReader() int {
	definition := func(name, schema string) string {
		return `{"name":"` + name + `","inputSchema":` + schema + `,"annotations":{"readOnlyHint":true}}`
	}
	answer := func(context.Context, []byte, func(int, int, string)) (any, error) { return "an answer", nil }
	server := demo.Server{
		{Definition: definition("works", `{"type":"object","properties":{"unit":{"enum":["m","ft"]}},"required":["unit"]}`), Call: answer},
		{Definition: definition("fails", `{"type":"object"}`), Call: func(context.Context, []byte, func(int, int, string)) (any, error) {
			return nil, errors.New("no ${TOKEN} for " + os.Getenv("TOKEN"))
		}},
		{Definition: definition("asks", `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`),
			Call: func(context.Context, []byte, func(int, int, string)) (any, error) {
				return nil, os.WriteFile("asked", []byte("1"), 0o600)
			}},
	}
	options := clients.Options{Backend: server, Name: "reader", Version: "0", Log: slog.New(slog.DiscardHandler)}
	if clients.ServeStdio(context.Background(), os.Stdin, os.Stdout, options) != nil {
		return 1
	}
	return 0
}
