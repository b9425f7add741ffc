package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

var update = flag.Bool("update", false, "write what is got into testdata as what is wanted")

// TestGolden loads the configuration in each testdata/*.txtar and compares the error, or
// the description and the warnings, with the last file in it. Lines "env NAME=VALUE" of
// the comment set the environment. The directory of the file and the home directory are
// written as $DIR and $HOME.
func TestGolden(t *testing.T) {
	t.Setenv("PATH", "") // no command is found, whatever is installed
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(t, archive)
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatalf("%s has %d files, want a configuration and what is wanted of it", file, len(archive.Files))
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// outcome returns the result of loading the first file of the archive.
func outcome(t *testing.T, archive *txtar.Archive) string {
	dir, home := t.TempDir(), t.TempDir()
	name := filepath.Join(dir, archive.Files[0].Name)
	if err := os.WriteFile(name, archive.Files[0].Data, 0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home}
	for line := range strings.Lines(string(archive.Comment)) {
		if assignment, ok := strings.CutPrefix(strings.TrimSpace(line), "env "); ok {
			key, value, _ := strings.Cut(assignment, "=")
			env[key] = value
		}
	}
	var b bytes.Buffer
	c, err := Load(testOptions(name, home, env))
	if err != nil {
		b.WriteString(err.Error() + "\n")
	} else {
		if err := c.Describe(&b); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Warnings() {
			if !strings.Contains(w, "; this is "+confine.Level()) { // what a machine lacks
				b.WriteString("warning: " + w + "\n")
			}
		}
	}
	got := strings.ReplaceAll(b.String(), dir+string(filepath.Separator)+"config", "config")
	escaped := func(path string) string { return strings.ReplaceAll(path, `\`, `\\`) }
	got = strings.NewReplacer(escaped(dir), "$DIR", escaped(home), "$HOME", dir, "$DIR", home, "$HOME").Replace(got)
	return plainPaths(got)
}

// plainPaths converts paths of Windows to the form in testdata: with slashes, with quotes
// in warnings only, and without the drive letter that makes rooted paths absolute there.
func plainPaths(text string) string {
	if filepath.Separator == '/' {
		return text
	}
	quoted := regexp.MustCompile(`"(\$(?:DIR|HOME)[^" ]*)"`)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "$DIR") || strings.Contains(line, "$HOME") {
			line = filepath.ToSlash(strings.ReplaceAll(line, `\\`, `\`))
		}
		if !strings.HasPrefix(line, "warning: ") {
			line = quoted.ReplaceAllString(line, "$1")
		}
		b.WriteString(strings.ReplaceAll(line, "$DIR/no/such", "/no/such"))
	}
	return b.String()
}

// testOptions returns options with an environment for the test.
func testOptions(flag, home string, env map[string]string) LoadOptions {
	return LoadOptions{
		Flag:   flag,
		Getenv: func(key string) (string, bool) { v, ok := env[key]; return v, ok },
		Home:   func() (string, error) { return home, nil },
	}
}
