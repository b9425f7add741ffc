package main

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestGroups checks that no group of verbs imports another one, and that cli imports no group.
func TestGroups(t *testing.T) {
	const own = "github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/"
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "testdata" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(folder.Name(), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				below, ok := strings.CutPrefix(imported, own)
				if ok && below != "cli" && below != path.Join("cli", "control") {
					t.Errorf("%s imports the group %s", filepath.ToSlash(name), below)
				}
			}
			found++
		}
	}
	if found < 40 {
		t.Errorf("only %d files were found", found)
	}
}
