package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKept compares testdata/kept.txt with what can grow in the product: the types and variables
// of packages to which code adds, by key or by append. Each has to say which row of docs/kept.md
// is about it, or why it is not kept. And each row is about something.
func TestKept(t *testing.T) {
	t.Parallel()
	grow := growing(sources(t))
	if len(grow) < 200 {
		t.Fatalf("only %d places found", len(grow))
	}
	const file = "testdata/kept.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../docs/kept.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \|`).FindAllStringSubmatch(string(document), -1) {
		rows[m[1]] = 0
	}
	delete(rows, "what") // the head of the table
	said, used := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			said[name] = why
		}
	}
	for _, name := range slices.Sorted(maps.Keys(grow)) {
		key := name
		if said[key] == "" { // the whole type
			of := strings.SplitN(name, ".", 3)
			key = strings.Join(of[:2], ".")
		}
		used[key] = true
		switch row, isRow := strings.CutPrefix(said[key], "row "); {
		case said[key] == "":
			t.Errorf("%s grows (%s): add it to host/%s, with the row of docs/kept.md that is about it, or with why it is not kept", name, grow[name], file)
		case isRow:
			if _, there := rows[row]; !there {
				t.Errorf("%s: docs/kept.md has no row %q", key, row)
			}
			rows[row]++
		}
	}
	for name := range said {
		if !used[name] {
			t.Errorf("%s: %s does not grow (remove the line)", file, name)
		}
	}
	for row, n := range rows {
		if n == 0 && !strings.Contains(row, "on disk") && !strings.HasPrefix(row, "goroutines") {
			t.Errorf("docs/kept.md: row %q is about nothing in %s", row, file)
		}
	}
}

// TestGrowing checks what counts as growing.
func TestGrowing(t *testing.T) {
	t.Parallel()
	const code = `package p
type a struct { m map[string]int; s []int; old []int; seen sync.Map; order list.List; n int }
type b struct { m map[string]int; c struct { deep []int } }
var table = map[string]int{}
func (x *a) f(other b) {
	x.m["k"] = 1
	x.s = append(x.s, 1)
	x.old = x.old[1:]
	x.seen.Store("k", 1)
	x.order.PushBack(1)
	x.n++
	other.c.deep = append(other.c.deep, 1)
	table["k"]++
	local := map[string]int{}
	local["k"] = 1
}`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "host/p/p.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := growing(&goSources{set, map[string]*ast.File{"host/p/p.go": f, "host/p/p_test.go": f, "scripts/p.go": f}})
	want := []string{"host/p.a.m", "host/p.a.order", "host/p.a.s", "host/p.a.seen", "host/p.b.c.deep", "host/p.table"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// keptFolders are the folders of the server. Programs that end after one command keep nothing.
var keptFolders = []string{"host", "tools", "abi"}

// commandsOnly are packages below them that only commands use.
var commandsOnly = []string{"host/smoke", "host/setup/doctor", "host/journal/timeline", "host/journal/verify", "host/journal/replay", "host/store/migrate", "host/confine/trace",
	"host/setup/serverjson", "host/confine/subreaper", "host/confine/restrict", "tools/bundle", "tools/change", "tools/tomldoc", "tools/display", "guest/rewrite", "guest/guestbuild"}

// growing returns the fields and variables that code adds to, as package.Type.field and
// package.variable, each with a place where it does.
func growing(s *goSources) map[string]string {
	owners := map[string]map[string][]string{} // by package and name of the field: the types that have it
	variables := map[string]map[string]bool{}
	files := map[string][]*ast.File{}
	for name, f := range s.product() {
		folder := path.Dir(name)
		in := func(parent string) bool { return within(name, parent) }
		if !slices.ContainsFunc(keptFolders, in) || slices.ContainsFunc(commandsOnly, in) {
			continue
		}
		files[folder] = append(files[folder], f)
		if owners[folder] == nil {
			owners[folder], variables[folder] = map[string][]string{}, map[string]bool{}
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					fieldsOf(spec.Name.Name, spec.Type, owners[folder])
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						variables[folder][n.Name] = g.Tok == token.VAR
					}
				}
			}
		}
	}
	grow := map[string]string{}
	for folder, all := range files {
		for _, f := range all {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				typeOf := receiverAndParameters(fn)
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					for _, added := range additions(n) {
						for _, name := range namesOf(added, typeOf, owners[folder], variables[folder]) {
							grow[path.Clean(folder)+"."+name] = s.set.Position(n.Pos()).String()
						}
					}
					return true
				})
			}
		}
	}
	return grow
}

// fieldsOf notes the fields of a type that can grow: maps, slices, lists.
func fieldsOf(owner string, of ast.Expr, fields map[string][]string) {
	s, ok := of.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			fields[n.Name] = append(fields[n.Name], owner)
			fieldsOf(owner+"."+n.Name, f.Type, fields) // a struct without a name
		}
	}
}

// additions returns the expressions that a statement adds something to: x in x[k] = v and x = append(x, ...),
// and in x.Store(k, v), x.PushFront(v) and the like of sync.Map and container/list.
func additions(n ast.Node) (to []ast.Expr) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if at, ok := left.(*ast.IndexExpr); ok {
				to = append(to, at.X)
			}
			if len(n.Rhs) != len(n.Lhs) {
				continue
			}
			call, ok := n.Rhs[i].(*ast.CallExpr)
			if name, isName := callee(call, ok); isName && name == "append" {
				to = append(to, left)
			}
		}
	case *ast.IncDecStmt:
		if at, ok := n.X.(*ast.IndexExpr); ok {
			to = append(to, at.X)
		}
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		if ok && (method.Sel.Name == "LoadOrStore" || method.Sel.Name == "PushFront" || method.Sel.Name == "PushBack" || method.Sel.Name == "Store" && len(n.Args) == 2) {
			to = append(to, method.X)
		}
	}
	return to
}

func callee(call *ast.CallExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	name, ok := call.Fun.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// receiverAndParameters returns the names of the types of a function's receiver and parameters, by
// the names of those.
func receiverAndParameters(fn *ast.FuncDecl) map[string]string {
	types := map[string]string{}
	lists := []*ast.FieldList{fn.Recv, fn.Type.Params}
	for _, list := range lists {
		if list == nil {
			continue
		}
		for _, f := range list.List {
			of := f.Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if generic, ok := of.(*ast.IndexExpr); ok {
				of = generic.X
			}
			if name, ok := of.(*ast.Ident); ok {
				for _, n := range f.Names {
					types[n.Name] = name.Name
				}
			}
		}
	}
	return types
}

// namesOf returns what an expression can be among the fields and variables of a package. Without
// the types of expressions, a field whose name several types have counts for each of them, unless
// it is one of the receiver or of a parameter.
func namesOf(x ast.Expr, typeOf map[string]string, fields map[string][]string, variables map[string]bool) (names []string) {
	switch x := x.(type) {
	case *ast.Ident:
		if variables[x.Name] && typeOf[x.Name] == "" {
			names = append(names, x.Name)
		}
	case *ast.SelectorExpr:
		owner := ""
		if of, ok := x.X.(*ast.Ident); ok {
			owner = typeOf[of.Name]
		}
		for _, t := range fields[x.Sel.Name] {
			if owner == "" || t == owner || !slices.Contains(fields[x.Sel.Name], owner) {
				names = append(names, t+"."+x.Sel.Name)
			}
		}
	case *ast.IndexExpr: // a map of maps
		return namesOf(x.X, typeOf, fields, variables)
	}
	return names
}
