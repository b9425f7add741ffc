package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// withRegistry runs a command with MCP_METATOOL_REGISTRY set to a registry that has the
// server.json files in a folder: NAMESPACE_NAME.json. In the arguments, URL stands for its
// address, which also has servers that speak HTTP with SSE: at /sse and /old/mcp.
func withRegistry(folder string, args []string) int {
	old := mcptest.NewServer(mcptest.ServerOptions{}).SSE()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" || r.URL.Path == "/old/mcp" {
			old.ServeHTTP(w, r)
			return
		}
		parts := strings.Split(r.URL.EscapedPath(), "/")
		if len(parts) == 3 && r.URL.Query().Get("search") != "" {
			fmt.Fprint(w, `{"servers": [{"server": {"name": "io.github.a/weather"}}], "metadata": {"count": 1}}`)
			return
		}
		if len(parts) != 6 || parts[5] != "latest" {
			http.NotFound(w, r)
			return
		}
		name, _ := url.PathUnescape(parts[3])
		http.ServeFile(w, r, filepath.Join(folder, strings.ReplaceAll(name, "/", "_")+".json"))
	}))
	defer registry.Close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "URL", registry.URL)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "MCP_METATOOL_REGISTRY="+registry.URL)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// TestServersPage runs the commands of docs/servers.md.
func TestServersPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	dir := t.TempDir()
	commands := 0
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "servers.md")) {
		for line := range strings.Lines(b.text) {
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "MCP_METATOOL_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			commands++
		}
	}
	if commands != 5 {
		t.Errorf("%d commands were found", commands)
	}
}
