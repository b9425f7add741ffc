package patch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestParseEdits(t *testing.T) {
	target, edits, err := parseEdits("-- a/b.go --\n<<<<<<<\nold\n=======\nnew\nlines\n>>>>>>>\n<<<<<<<\ngone\n=======\n>>>>>>>\n")
	if err != nil || target != "a/b.go" || len(edits) != 2 || string(edits[0].new) != "new\nlines\n" || string(edits[1].old) != "gone\n" {
		t.Errorf("%s, %q, %v", target, edits, err)
	}
	target, edits, err = parseEdits("++ a/b.go ++\npackage b\n")
	if err != nil || target != "a/b.go" || len(edits) != 1 || !edits[0].newFile() || string(edits[0].new) != "package b\n" {
		t.Errorf("%s, %q, %v", target, edits, err)
	}
	for _, text := range []string{
		"++ a.go\npackage b\n", "++  ++\npackage b\n", "++ a.go ++\n",
		"", "a.go\n", "-- a.go\n", "--  --\n",
		"-- a.go --\nold\n", "-- a.go --\n<<<<<<<\nold\n=======\nnew\n", "-- a.go --\n<<<<<<<\nold\n>>>>>>>\n",
		"-- a.go --\n<<<<<<<\n=======\nnew\n>>>>>>>\n", "-- a.go --\n<<<<<<<\nold\n=======\nnew\n>>>>>>>\nmore",
	} {
		if _, edits, err := parseEdits(text); err == nil {
			t.Errorf("%q: %q", text, edits)
		}
	}
}

// TestCopyRefuses checks that a module is refused that the edits were not made for.
func TestCopyRefuses(t *testing.T) {
	edits, err := readEdits("*.txt")
	if err != nil || len(edits) == 0 {
		t.Fatal(err)
	}
	for name, of := range map[string]func(old string) string{
		"no file":       nil,
		"without lines": func(string) string { return "package starlark\n" },
		"lines twice":   func(old string) string { return old + old },
	} {
		from := t.TempDir()
		for file, list := range edits {
			if of == nil || list[0].newFile() {
				continue
			}
			path := filepath.Join(from, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(of(string(list[0].old))), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := Copy(from, filepath.Join(t.TempDir(), "to"))
		if !errors.Is(err, ErrEdit) || !strings.Contains(err.Error(), ".go") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
