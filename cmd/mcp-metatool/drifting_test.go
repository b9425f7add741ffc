package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// serveDrifting is an upstream that offers what a file says at the moment: an object with
// the members name, instructions, tools and prompts.
func serveDrifting(path string) int {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		id, ok := wire.Get(in.Bytes(), "id")
		if !ok {
			continue
		}
		offer, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		offer = bytes.ReplaceAll(offer, []byte("\n"), nil) // a message is one line
		member := func(name, otherwise string) string {
			if raw, ok := wire.Get(offer, name); ok {
				return string(raw)
			}
			return otherwise
		}
		var result string
		switch method, _ := wire.GetString(in.Bytes(), "method"); method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":` +
				member("name", `"drifting"`) + `,"version":"1"},"instructions":` + member("instructions", `""`) + `}`
		case "tools/list":
			result = `{"tools":` + member("tools", "[]") + `}`
		case "prompts/list":
			result = `{"prompts":` + member("prompts", "[]") + `}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"done"}]}`
		default:
			result = `{}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	}
	return 0
}
