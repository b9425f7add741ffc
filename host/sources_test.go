package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// goSources are the Go files of this repository, by name, with their syntax trees.
type goSources struct {
	set   *token.FileSet
	files map[string]*ast.File
}

// parseSources parses all Go files once for all tests of rules about them, which must not change
// the trees.
var parseSources = sync.OnceValues(func() (*goSources, error) {
	s := &goSources{token.NewFileSet(), map[string]*ast.File{}}
	root := os.DirFS("..")
	return s, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		s.files[name], err = parser.ParseFile(s.set, name, source, parser.SkipObjectResolution)
		return err
	})
})

// sources returns the Go files of this repository.
func sources(t *testing.T) *goSources {
	t.Helper()
	s, err := parseSources()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// product returns the files of the product, without their tests.
func (s *goSources) product() map[string]*ast.File {
	product := map[string]*ast.File{}
next:
	for name, f := range s.files {
		for _, folder := range notProduct {
			if within(name, folder) {
				continue next
			}
		}
		if !strings.HasSuffix(name, "_test.go") {
			product[name] = f
		}
	}
	return product
}
