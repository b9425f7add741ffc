package clientconfig

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// TestOwnArgs checks that mcp-metatool is recognized behind the programs that start it.
func TestOwnArgs(t *testing.T) {
	for name, words := range map[string][]string{
		"path": {"/opt/mcp-metatool", "-c", "x"}, "Windows": {`C:\bin\MCP-Metatool.exe`, "-c", "x"},
		"npx": {"npx", "-y", "mcp-metatool@1.2.3", "-c", "x"}, "scope": {"npx.cmd", "--yes", "@a/mcp-metatool@latest", "-c", "x"},
		"npx -p": {"npx", "-p", "@a/mcp-metatool", "mcp-metatool", "-c", "x"}, "npm exec": {"npm", "exec", "--", "mcp-metatool", "-c", "x"},
		"docker": {"docker", "run", "-i", "--rm", "-e", "TOKEN", "-v", "/a:/mcp-metatool", "ghcr.io/a/mcp-metatool:1", "-c", "x"},
		"podman": {"/usr/bin/podman", "run", "--init", "--name=y", "mcp-metatool@sha256:00", "-c", "x"},
		"sh":     {"/bin/sh", "-c", "mcp-metatool -c x"}, "exec": {"bash", "-lc", "KEY=1 exec '/opt/mcp-metatool' -c x"}, "cd": {"sh", "-c", "cd /a && mcp-metatool -c x"},
		"go run": {"go", "run", "./cmd/mcp-metatool", "-c", "x"}, "go run @": {"go", "run", "-C", "/src", modulePath + "/cmd/mcp-metatool@latest", "-c", "x"},
		"env": {"env", "-u", "A", "KEY=1", "npx", "mcp-metatool", "-c", "x"}, "cmd": {"cmd", "/c", "npx", "-y", "mcp-metatool", "-c", "x"},
	} {
		if args, ok := ownArgs(words); !ok || !slices.Equal(args, []string{"-c", "x"}) {
			t.Errorf("%s: %q, %v", name, args, ok)
		}
	}
	for _, words := range [][]string{
		{"npx", "-y", "other", "mcp-metatool"}, {"docker", "run", "--name", "mcp-metatool", "other"}, {"docker", "exec", "mcp-metatool"},
		{"sh", "-c", "other mcp-metatool"}, {"sh", "mcp-metatool"}, {"node", "/x/mcp-metatool/index.js"}, {"npx"}, {"docker", "run"}, {"env"}, {""}, {"sh", "-c", ""},
	} {
		if args, ok := ownArgs(words); ok {
			t.Errorf("%q: %q", words, args)
		}
	}
	if isSelf(&Server{Command: "npx", Args: []string{"mcp-metatool", "demo-upstream", "weather"}}) {
		t.Error("demo-upstream is no proxy")
	}
}

// TestRenamed checks that our binary is recognized under another name. Here that is the one
// of this test.
func TestRenamed(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, named := filepath.Join(dir, "mt"), filepath.Join(dir, "mcp-metatool")
	if err := os.WriteFile(named, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("links need a right there")
	}
	for _, target := range []string{own, named} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if !isSelf(&Server{Command: link}) {
			t.Errorf("a link to %s is not recognized", target)
		}
		os.Remove(link)
	}
	copied := filepath.Join(dir, "copy")
	from, err := os.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY, 0o700)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err != nil || to.Close() != nil {
		t.Fatal(err)
	}
	if isSelf(&Server{Command: copied}) { // built from another package: this test
		t.Error("any copy is recognized")
	}
}
