package lazyregexp

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestExpressions compiles the expressions of the whole module.
func TestExpressions(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(source), "lazyregexp.New(") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || name(call.Fun) != "lazyregexp.New" {
				return true
			}
			found++
			expression, err := constant(call.Args[0])
			if err == nil {
				_, err = regexp.Compile(expression)
			}
			if err != nil {
				t.Errorf("%s: %v", files.Position(call.Pos()), err)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("only %d expressions found", found)
	}
}

// constant returns the text of an expression of literals, + and strings.Join.
func constant(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		left, err := constant(e.X)
		if err != nil {
			return "", err
		}
		right, err := constant(e.Y)
		return left + right, err
	case *ast.CallExpr:
		list, ok := e.Args[0].(*ast.CompositeLit)
		if !ok || name(e.Fun) != "strings.Join" {
			break
		}
		var parts []string
		for _, element := range list.Elts {
			part, err := constant(element)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		separator, err := constant(e.Args[1])
		return strings.Join(parts, separator), err
	}
	return "", fmt.Errorf("the argument of lazyregexp.New is a %T, which this test cannot compile", e)
}

func name(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	return fmt.Sprint(s.X) + "." + s.Sel.Name
}

func TestRegexp(t *testing.T) {
	t.Parallel()
	if r := New(`^a+$`); !r.MatchString("aa") || r.MatchString("ab") || New(`b`).ReplaceAllString("abb", "c") != "acc" {
		t.Error("an expression matches something else than regexp's")
	}
}
