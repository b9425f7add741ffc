package linear

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// CheckTable fails the test if an exported function of the package in the folder takes bytes, or a
// reader of bytes, and is neither in the table of functions given to Check nor among the
// exceptions, which say why; or if a listed function is gone. Methods are written Type.Method.
func CheckTable(t testing.TB, folder string, table []string, exceptions map[string]string) {
	t.Helper()
	known := slices.Concat(table, slices.Collect(maps.Keys(exceptions)))
	found := exported(t, folder)
	for _, name := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s takes bytes, and no test says that it takes linear time", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(found, name) {
			t.Errorf("%s is in the table, but no exported function that takes bytes", name)
		}
	}
}

// exported returns the names of the functions.
func exported(t testing.TB, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !takesBytes(f.Type) {
				continue
			}
			if name := nameOf(f); ast.IsExported(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name + "." + f.Name.Name
	}
	return ""
}

func takesBytes(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		of := p.Type
		for {
			list, ok := of.(*ast.ArrayType)
			if !ok {
				break
			}
			of = list.Elt
			if ident, ok := of.(*ast.Ident); ok && ident.Name == "byte" {
				return true
			}
		}
		at, ok := of.(*ast.SelectorExpr)
		return ok && at.Sel.Name == "Reader"
	})
}
