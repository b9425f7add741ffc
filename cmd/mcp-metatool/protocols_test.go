package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serveEra is an upstream that speaks only some revisions: "old" answers server/discover
// like a server that does not know it, "new" knows only the revision with that request, and
// "strict" ends at any other request before initialize. "both" is echo. The kind can also be
// in a file.
func serveEra(kind string) int {
	if text, err := os.ReadFile(kind); err == nil {
		kind = strings.TrimSpace(string(text))
	}
	if kind == "both" {
		return serveEcho()
	}
	const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"1"}}}`
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`,
		"ping":       `{}`,
		"tools/list": `{"tools":[]}`,
	}
	if kind == "new" {
		results = map[string]string{"server/discover": discovered, "tools/list": `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`}
	}
	initialized := false
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		initialized = initialized || m.Method == "initialize"
		if kind == "strict" && !initialized {
			return 3
		}
		if result, ok := results[m.Method]; ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		} else {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m.ID)
		}
	}
	return 0
}

// TestProtocolExample runs the example of servers --protocol in docs/configuration.md, with
// servers that behave as the example says.
func TestProtocolExample(t *testing.T) {
	startsProgram(t)
	var example string
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "configuration.md")) {
		if b.language == "text" && strings.HasPrefix(b.text, "NAME ") {
			example = b.text
		}
	}
	config := "[upstream.files]\ncommand = \"serveera\"\nargs = [\"old\"]\n" +
		"[upstream.notes]\ncommand = \"echo\"\n" +
		"[upstream.search]\ncommand = \"serveera\"\nargs = [\"new\"]\nprotocol = \"2026-07-28\"\n"
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "mcp-metatool", "servers", "--protocol", "--config", file)
	cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := trimLines(string(out)); got != trimLines(example) {
		t.Errorf("got\n%swant\n%s", got, example)
	}
}

// trimLines removes spaces at the ends of lines.
func trimLines(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return all.String()
}
