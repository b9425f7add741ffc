package docs

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFile finds Go files named in a doc comment. Names that follow a slash
// belong to other packages. Only a suffix for a platform may be a pattern:
// machine_*.go.
var goFile = regexp.MustCompile(`(?:^|[^\w/.*-])(\w+(?:_\*)?\.go)\b`)

// TestPackageComments checks that the files named in package comments exist.
func TestPackageComments(t *testing.T) {
	packages := map[string]sourceFiles{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		base := d.Name()
		if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") && base != ".." {
			return fs.SkipDir
		}
		files, err := readSources(os.DirFS(name))
		if len(files.names) > 0 {
			packages[strings.TrimPrefix(filepath.ToSlash(name), "../")] = files
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 30 {
		t.Fatalf("only %d packages found", len(packages))
	}
	for folder, files := range packages {
		if problem := files.check(); problem != nil {
			t.Errorf("%s: %v", folder, problem)
		}
	}
}

// sourceFiles are the Go files of a package, without its tests, on all
// platforms.
type sourceFiles struct {
	names []string
	doc   string
}

func readSources(folder fs.FS) (sourceFiles, error) {
	var files sourceFiles
	names, err := fs.Glob(folder, "*.go")
	if err != nil {
		return files, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return files, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return files, err
		}
		files.names = append(files.names, name)
		if f.Doc != nil {
			files.doc = f.Doc.Text()
		}
	}
	return files, nil
}

// check reports files that the doc comment names and the package lacks. Without any file of the
// package in the comment, the names are those of other packages.
func (s sourceFiles) check() error {
	var unknown []error
	known := false
	for _, m := range goFile.FindAllStringSubmatch(s.doc, -1) {
		has := slices.ContainsFunc(s.names, func(name string) bool {
			ok, err := path.Match(m[1], name)
			return ok && err == nil
		})
		if known = known || has; !has {
			unknown = append(unknown, fmt.Errorf("the doc comment names %s, which does not exist", m[1]))
		}
	}
	if !known {
		return nil
	}
	return errors.Join(unknown...)
}

func TestPackageCommentCheck(t *testing.T) {
	two := []string{"a.go", "c_linux.go"}
	for _, test := range []struct {
		name string
		doc  string
		want string // in the problem; "" is none
	}{
		{"known", "Begin with a.go; c_*.go has the rest.", ""},
		{"gone", "Begin with a.go, then old.go.", "names old.go, which"},
		{"file of another package", "a.go; see other/gone.go", ""},
		{"no file of the package", "Package x, see y.go of package y.", ""},
	} {
		problem := sourceFiles{names: two, doc: test.doc}.check()
		if test.want == "" && problem != nil || test.want != "" && (problem == nil || !strings.Contains(problem.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, problem, test.want)
		}
	}
}
