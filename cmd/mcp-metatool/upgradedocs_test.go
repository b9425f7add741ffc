package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestUpgradeDocs runs the commands of docs/upgrade.md in a home directory in which Cursor
// starts mcp-metatool, but for those of npm, which scripts/packages runs. What it uninstalls
// must be gone, and every name in the store must be in the page's table.
func TestUpgradeDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	home := t.TempDir()
	store, cache := filepath.Join(home, ".mcp-metatool"), filepath.Join(home, ".cache")
	env := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME="+cache, "MCP_METATOOL_DIR=", "MCP_METATOOL_CONFIG=", "PATH="+pathWithKeyring(), "KEYRING=github=value")
	shell := func(line string, more ...string) string {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.Stdin = home, append(env[:len(env):len(env)], more...), strings.NewReader("value")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	write := func(text string, path ...string) {
		file := filepath.Join(append([]string{home}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[upstream.harbour]\ncommand = \"mcp-metatool\"\nargs = [\"demo-upstream\", \"harbour\"]\n", ".mcp-metatool", "config.toml")
	write(`{"mcpServers": {"metatool": {"command": "mcp-metatool"}}}`, ".cursor", "mcp.json")
	write("code", ".cache", "mcp-metatool", "wasm", "guest-1", "code")
	shell("mcp-metatool secret set github")
	compiled := []string{"HOME=" + os.Getenv("HOME"), "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"), "MCP_METATOOL_DIR=" + store}
	shell(`mcp-metatool run save_tool --params '{"name": "one", "description": "one", "inputSchema": {"type": "object"}, "code": "return 1"}'`, compiled...)
	shell(`mcp-metatool run save_tool --params '{"name": "one", "description": "one", "inputSchema": {"type": "object"}, "code": "return 2"}'`, compiled...)
	shell("mcp-metatool run one", compiled...)
	shell("mcp-metatool servers")

	page := filepath.Join("..", "..", "docs", "upgrade.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") { // the page says that these are empty
			continue
		}
		if !strings.Contains(string(text), "`"+e.Name()+"`") {
			t.Errorf("the page does not say what %s in the store is", e.Name())
		}
	}
	if len(entries) < 5 {
		t.Errorf("the store has only %v", entries)
	}

	commands := 0
	for _, b := range readBlocks(t, page) {
		for line := range strings.Lines(b.text) {
			if b.language != "sh" || strings.HasPrefix(line, "npm ") {
				continue
			}
			commands++
			out := shell(line)
			if strings.HasPrefix(line, "cp -R ") {
				if tools, err := os.ReadDir(filepath.Join(home, "mcp-metatool-backup", "tools")); err != nil || len(tools) == 0 {
					t.Errorf("the copy has no tools: %v, %v", tools, err)
				}
			}
			if strings.HasPrefix(line, "mcp-metatool cache clean") && !strings.Contains(out, "removed ") {
				t.Errorf("%s: nothing was removed:\n%s", line, out)
			}
		}
	}
	if commands < 9 {
		t.Errorf("only %d commands were run", commands)
	}

	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("the store is still there: %v", err)
	}
	if file, err := os.ReadFile(filepath.Join(home, ".cursor", "mcp.json")); err != nil || strings.Contains(string(file), "mcp-metatool") {
		t.Errorf("the host's file has %s, %v", file, err)
	}
	err = filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > 0 {
			t.Errorf("%s is left of the caches: %v", path, err)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}
