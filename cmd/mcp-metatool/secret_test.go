package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
)

// mockKeyring replaces the keyring by one in memory with the given entries, NAME=VALUE
// separated by spaces; "" keeps the keyring of the system.
func mockKeyring(entries string) {
	if entries == "" {
		return
	}
	keyring.MockInit()
	for _, entry := range strings.Fields(entries) {
		name, value, _ := strings.Cut(entry, "=")
		if err := keyring.Set(secret.Service, name, value); err != nil {
			panic(err)
		}
	}
}

// fetch is a command that prints a secret: the content of a file. It notes in the file
// "fetched" that it has run. With a second argument, it fails after that.
func fetch(args []string) int {
	value, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	notes, err := os.OpenFile("fetched", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = notes.WriteString("x")
		notes.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(string(value))
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, "refused, with", strings.TrimSpace(string(value)))
		return 7
	}
	return 0
}

// TestSecretsPage runs the commands and loads the configurations of docs/secrets.md.
func TestSecretsPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token.txt"), []byte("value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands, configurations := 0, 0
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "secrets.md")) {
		if b.language == "toml" {
			name := filepath.Join(dir, "config.toml")
			if err := os.WriteFile(name, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(config.LoadOptions{Flag: name})
			if err != nil {
				t.Fatal(err)
			}
			if references, _ := cfg.References(); len(references) != 3 {
				t.Errorf("references: %v", references)
			}
			configurations++
			continue
		}
		for line := range strings.Lines(b.text) {
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader("value")
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir, "PATH="+pathWithKeyring(), "KEYRING=github=value")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			commands++
		}
	}
	if commands != 4 || configurations != 1 {
		t.Errorf("%d commands and %d configurations were found", commands, configurations)
	}
}
