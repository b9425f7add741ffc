package limits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// enforcers are packages that enforce limits of the table. They must not name keys of the
// configuration, because the advice for users is in the table.
var enforcers = []string{"script/sandbox", "mcp/wire", "mcp/budget", "mcp/rpc", "script/compose", "clients", "servers", "proxy/route"}

// TestOnlyTheTableNamesKeys looks for keys of limits in the string literals of packages
// that enforce limits.
func TestOnlyTheTableNamesKeys(t *testing.T) {
	files := 0
	for _, folder := range enforcers {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if key := keyIn(text); err == nil && key != "" {
					t.Errorf("%s names the key %s: take it from package limits", set.Position(n.Pos()), key)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Errorf("only %d files were read", files)
	}
}

// anyKey matches a key of a limit. A single word, such as "timeout", counts only
// with its section.
var anyKey = func() *regexp.Regexp {
	var keys []string
	for _, l := range limits.All {
		switch {
		case strings.Contains(l.Key, "_"):
			keys = append(keys, regexp.QuoteMeta(l.Key))
		case l.Key != "":
			keys = append(keys, regexp.QuoteMeta(l.Setting()))
		}
	}
	return regexp.MustCompile(`(?:^|[^\w/])(` + strings.Join(keys, "|") + `)(?:$|\W)`)
}()

// keyIn returns a key of a limit that a text contains, "" for none.
func keyIn(text string) string {
	if m := anyKey.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func TestKeyIn(t *testing.T) {
	for text, want := range map[string]string{
		"too much (raise execution.max_memory)": "max_memory",
		"raise max_message":                     "max_message",
		"raise execution.timeout":               "execution.timeout",
		"the timeout is over":                   "",
		"max_memory_of_others":                  "",
		"":                                      "",
	} {
		if got := keyIn(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
