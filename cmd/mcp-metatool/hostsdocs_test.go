package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// TestHostsDocs writes the host's file of docs/hosts.md and runs its commands, in a home
// directory of its own.
func TestHostsDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	r := newReadme(t)
	page := filepath.Join("..", "..", "docs", "hosts.md")
	r.env = append(r.env, "HOME="+r.dir, "XDG_CONFIG_HOME=", "MCP_METATOOL_DIR=", "WEATHER_API_KEY=x")
	for i, b := range readBlocks(t, page) {
		if b.language == "json" && strings.Contains(b.text, "// my servers") {
			file := filepath.Join(r.dir, ".cursor", "mcp.json")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := r.try(b); err != nil {
			t.Fatalf("block %d (%s):\n%s\n%v", i+1, b.language, b.text, err)
		}
	}
	if r.commands < 10 {
		t.Errorf("only %d commands were run", r.commands)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range clientconfig.Hosts() {
		if !strings.Contains(string(text), "| `"+h.Name+"` | "+h.Title+" |") {
			t.Errorf("%s is not in the table of hosts", h.Name)
		}
	}
}
