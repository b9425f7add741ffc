package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

var updatePatterns = flag.Bool("update-patterns", false, "write the scripts of docs/patterns into their definitions")

var patternsDir = filepath.Join("..", "..", "docs", "patterns")

// leastPatterns is the minimum number of patterns.
const leastPatterns = 12

// TestPatterns checks that each pattern in docs/patterns has a script, the same script
// as a saved tool, and a smoke test that passes.
func TestPatterns(t *testing.T) {
	startsProgram(t)
	names := patternNames(t)
	if len(names) < leastPatterns {
		t.Errorf("%d patterns, want %d", len(names), leastPatterns)
	}
	savePatterns(t, names)
	out := runPatternsReadme(t)
	for _, name := range names {
		if !strings.Contains(out, filepath.Join("docs", "patterns", name+".toml")+"\n") {
			t.Errorf("the checks of %s were not run:\n%s", name, out)
		}
	}
}

// runPatternsReadme runs the commands of the index, with no saved tools, and returns
// their output.
func runPatternsReadme(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var all strings.Builder
	for _, b := range readBlocks(t, filepath.Join(patternsDir, "README.md")) {
		for line := range strings.Lines(b.text) {
			words := strings.Fields(line)
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Dir = filepath.Join("..", "..")
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s%v\n%s", line, err, out)
			}
			all.Write(out)
		}
	}
	return all.String()
}

// patternNames returns the names of all files except the index. Each pattern must have
// all files.
func patternNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(patternsDir)
	if err != nil {
		t.Fatal(err)
	}
	endings := map[string][]string{}
	for _, e := range entries {
		if e.Name() == "README.md" {
			continue
		}
		ext := filepath.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext)
		endings[name] = append(endings[name], ext)
	}
	var names []string
	for name, have := range endings {
		if want := []string{".json", ".star", ".toml"}; !slices.Equal(have, want) {
			t.Errorf("%s: there is %v, want %v", name, have, want)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A comment before a script says what it does, when to use it, and what can go wrong.
var patternComment = regexp.MustCompile(`\A# [^\n]+\n(?:# [^\n]+\n)*#\n# When: [^\n]+\n(?:# [^\n]+\n)*#\n# What can go wrong: [^\n]+\n(?:# [^\n]+\n)*\n`)

// savePatterns saves the definitions in a store, which checks their schemas.
func savePatterns(t *testing.T, names []string) {
	t.Helper()
	store, err := tools.OpenStore(t.TempDir(), tools.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	index := readText(t, filepath.Join(patternsDir, "README.md"))
	for _, name := range names {
		if !strings.Contains(index, "**["+name+"]("+name+".star)**: ") {
			t.Errorf("README.md says nothing of %s", name)
		}
		checks := readText(t, filepath.Join(patternsDir, name+".toml"))
		if strings.Count(checks, "[[check]]") < 2 || !strings.Contains(checks, "raises = ") && !strings.Contains(checks, "error_type = ") {
			t.Errorf("%s.toml: want at least two checks, one of them of what goes wrong", name)
		}
		if _, _, err := store.Save(readPattern(t, name)); err != nil {
			t.Errorf("%s.json: %v", name, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// readPattern lets a store read the definition of a pattern, and compares it with the
// script.
func readPattern(t *testing.T, name string) tools.Definition {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(patternsDir, name+".json")
	if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", name+".json"), []byte(readText(t, file)), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := tools.OpenStore(dir, tools.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() // nothing is written
	def, err := store.Get(name)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	code := readText(t, filepath.Join(patternsDir, name+".star"))
	if *updatePatterns {
		def.Code = code
		writePattern(t, file, def)
	}
	switch {
	case def.Code != code:
		t.Errorf("%s has another script than %s.star (-update-patterns writes it anew)", file, name)
	case def.Description == "":
		t.Errorf("%s: no description", file)
	case !patternComment.MatchString(code):
		t.Errorf("%s.star: the comment does not say what it is, when it fits and what can go wrong", name)
	}
	return def
}

func writePattern(t *testing.T, file string, def tools.Definition) {
	t.Helper()
	text, err := def.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
