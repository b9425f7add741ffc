package protocol_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// exempt are folders that may contain the names themselves: this package, and the peers
// for tests and benchmarks. Those must not depend on the table that they test.
var exempt = []string{"host/mcp/protocol", "host/mcptest", "host/clients/clienttest", "host/servers/link/linktest", "host/servers/oauth/oauthtest", "scripts"}

// TestOnlyThisPackageKnowsRevisions checks that no other package names a revision or
// compares revisions, or contains the name of a method or an error code of MCP. Tests may
// do so.
func TestOnlyThisPackageKnowsRevisions(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			hidden := name != "." && strings.HasPrefix(d.Name(), ".")
			if hidden || d.Name() == "testdata" || slices.Contains(exempt, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, complaint := range findLiterals(t, name, string(source)) {
			t.Error(complaint)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

// TestLiteralsAreFound checks that the test above finds such literals.
func TestLiteralsAreFound(t *testing.T) {
	for source, want := range map[string]string{
		`const since = "2025-06-18"`:                                             "names revision 2025-06-18",
		`const since = "2026-07-28"`:                                             "names revision 2026-07-28",
		"var hello = `{\"protocolVersion\":\"2025-11-25\"}`":                     "names revision 2025-11-25",
		`var _ = mcp.ProtocolVersion20250326`:                                    "names a revision with mcp.ProtocolVersion20250326",
		`var _ = mcp.LATEST_PROTOCOL_VERSION`:                                    "names a revision with mcp.LATEST_PROTOCOL_VERSION",
		`func f(s session) bool { return s.Revision() == old }`:                  "compares a revision",
		`func f(s session) bool { return s.Revision().String() < "2025" }`:       "compares a revision",
		`func f(revision string) bool { return "" != revision }`:                 "compares a revision",
		`func f(revision *string) bool { return *revision != "x" }`:              "compares a revision",
		`func f(p params) bool { return p.ProtocolVersion >= since }`:            "compares a revision",
		`func f(r session) { switch r.revision { case a: } }`:                    "compares a revision",
		`func f(revision string) bool { return slices.Contains(all, revision) }`: "compares a revision",
		`func f(revision string) int { return strings.Compare(revision, old) }`:  "compares a revision",
		`const method = "tools/call"`:                                            "spells method tools/call",
		`func f(m string) bool { return m == "ping" }`:                           "spells method ping",
		`const notFound = -32002`:                                                "spells error code -32002",

		`// since 2025-06-18`:                                                 "",
		`const day = "2025-01-31"`:                                            "",
		`func f(revision *string) bool { return revision == nil }`:            "",
		`func f(r protocol.Revision) bool { return r.Has(protocol.Batches) }`: "",
		`func f(s session) bool { return s.Revision().IsZero() }`:             "",
		`const path = "tools/calls"`:                                          "",
		`const parseError = -32700`:                                           "",
	} {
		got := findLiterals(t, "f.go", "package p\n"+source+"\n")
		if want == "" && got != nil || want != "" && (len(got) == 0 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
}

// findLiterals returns what a file contains about the protocol, one line for each finding.
func findLiterals(t *testing.T, name, source string) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s: ask package protocol", set.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			checkLiteral(n, add)
		case *ast.UnaryExpr:
			if code, ok := n.X.(*ast.BasicLit); ok && n.Op == token.SUB && len(code.Value) == 5 && strings.HasPrefix(code.Value, "320") {
				add(n, "spells error code -%s", code.Value)
			}
		case *ast.SelectorExpr:
			if strings.HasPrefix(n.Sel.Name, "ProtocolVersion20") || n.Sel.Name == "LATEST_PROTOCOL_VERSION" || n.Sel.Name == "ValidProtocolVersions" {
				add(n, "names a revision with mcp.%s", n.Sel.Name)
			}
		default:
			if comparesRevision(n) {
				add(n, "compares a revision")
			}
		}
		return true
	})
	return found
}

// checkLiteral looks for names of revisions and of methods in a literal.
func checkLiteral(lit *ast.BasicLit, add func(ast.Node, string, ...any)) {
	if lit.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	for _, name := range append(protocol.Handshake.Names(), "2026-07-28") {
		if strings.Contains(text, name) {
			add(lit, "names revision %s", name)
		}
	}
	for _, from := range []protocol.Party{protocol.Client, protocol.Server} {
		if _, ok := protocol.FindMethod(from, text); ok {
			add(lit, "spells method %s", text)
			break
		}
	}
}

// comparesRevision reports whether a node compares something that is called a revision.
// The compiler prevents ordering of protocol.Revision.
func comparesRevision(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return !isNil(n.X) && !isNil(n.Y) && (isRevision(n.X) || isRevision(n.Y))
		}
	case *ast.SwitchStmt:
		return n.Tag != nil && isRevision(n.Tag)
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := f.X.(*ast.Ident)
		return ok && slices.Contains([]string{"slices", "strings", "cmp", "bytes"}, pkg.Name) && slices.ContainsFunc(n.Args, isRevision)
	}
	return false
}

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

// isRevision reports whether an expression is called a revision.
func isRevision(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		name := strings.ToLower(e.Name)
		return strings.HasSuffix(name, "revision") || strings.HasSuffix(name, "protocolversion")
	case *ast.SelectorExpr:
		return isRevision(e.Sel) || e.Sel.Name == "String" && isRevision(e.X)
	case *ast.CallExpr:
		return isRevision(e.Fun)
	case *ast.StarExpr:
		return isRevision(e.X)
	case *ast.ParenExpr:
		return isRevision(e.X)
	}
	return false
}
