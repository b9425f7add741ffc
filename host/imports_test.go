package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module   = "github.com/mcp-metatool/mcp-metatool"
	maxLines = 800
)

// librariesOf says which packages of ours may import a library. The rules are about the
// product: a test may use any library to compare with. A folder that ends in /...
// includes all folders below it.
var librariesOf = []struct {
	library string
	allowed []string
}{
	{"github.com/tetratelabs/wazero", []string{"host/script/sandbox"}},
	{"cel.dev/cel-go", []string{"host/guard/policy/compile"}},
	{"github.com/nats-io/nats.go", []string{"host/fleet/jetstream"}},
	{"github.com/nats-io/nats-server/v2", []string{"scripts/natsserver"}},
	{"go.starlark.net", []string{"guest/interp", "guest/parse", "guest/stdlib/..."}},
	// They call methods by name, so that the linker keeps every method of the program.
	{"text/template", nil},
	{"html/template", nil},
	{"github.com/mark3labs/mcp-go", []string{
		"host/servers/httpclient", "host/servers/oauth", "host/proxy/builtin",
	}},
}

// neverImport says which packages of ours must not depend on which others, not even
// indirectly or in tests.
var neverImport = []struct {
	from, what string // folders, with all below them; "" is every package
}{
	{"abi", "host"},
	{"tools", "host"},
	{"host/config", "host/guard/policy"},
	{"", "cmd"},
}

// bannedNames say nothing about what is in a package.
var bannedNames = []string{"util", "utils", "common", "types", "manager", "managers", "helpers"}

// goPackage is what go list says about a package. Fields named Elsewhere are from files
// for other systems than the one that was asked for.
type goPackage struct {
	ImportPath, Dir, Name, Doc             string
	GoFiles, IgnoredGoFiles                []string
	Imports, TestImports, XTestImports     []string
	CgoFiles                               []string
	ImportsElsewhere, TestImportsElsewhere []string `json:"-"`
}

func TestPackages(t *testing.T) {
	t.Parallel()
	pkgs := listPackages(t)
	if len(pkgs) < 3 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, complaint := range slices.Concat(checkImports(pkgs), checkNames(pkgs)) {
		t.Error(complaint)
	}
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	complaints, files, err := checkLength(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no Go files found")
	}
	for _, c := range complaints {
		t.Error(c)
	}
}

// listPackages returns all packages of this repository.
func listPackages(t *testing.T) []*goPackage {
	t.Helper()
	pkgs, err := loadPackages()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// loadPackages asks go list for all packages of the module, once for all tests. go list omits
// packages without a file for the system it is asked for, so it is asked for the guest's system
// too. addIgnored reads files for other systems, and those of the module scripts, whose
// libraries need not be on this machine.
var loadPackages = sync.OnceValues(func() ([]*goPackage, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	pkgs, err := goList(root)
	if err != nil {
		return nil, err
	}
	ofGuest, err := goList(root, "GOOS=wasip1", "GOARCH=wasm")
	if err != nil {
		return nil, err
	}
	for _, p := range ofGuest {
		native := func(q *goPackage) bool { return q.ImportPath == p.ImportPath }
		if !slices.ContainsFunc(pkgs, native) {
			pkgs = append(pkgs, p)
		}
	}
	scripts, err := scriptPackages(root)
	if err != nil {
		return nil, err
	}
	pkgs = append(pkgs, scripts...)
	for _, p := range pkgs {
		if err := p.addIgnored(); err != nil {
			return nil, err
		}
	}
	return pkgs, nil
})

// scriptPackages returns the packages of the module scripts, with their files as ones to read.
func scriptPackages(root string) (pkgs []*goPackage, err error) {
	byDir := map[string]*goPackage{}
	err = fs.WalkDir(os.DirFS(root), "scripts", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "endtoend"): // endtoend has a module of its own
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		dir := path.Dir(name)
		p := byDir[dir]
		if p == nil {
			p = &goPackage{ImportPath: path.Join(module, dir), Dir: filepath.Join(root, filepath.FromSlash(dir))}
			byDir[dir] = p
			pkgs = append(pkgs, p)
		}
		p.IgnoredGoFiles = append(p.IgnoredGoFiles, path.Base(name))
		return nil
	})
	if err == nil && len(pkgs) < 5 {
		err = fmt.Errorf("only %d packages found in scripts", len(pkgs))
	}
	return pkgs, err
}

// goList runs go list once.
func goList(root string, env ...string) ([]*goPackage, error) {
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Dir,Name,Doc,GoFiles,IgnoredGoFiles,CgoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	var pkgs []*goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// addIgnored reads the files that the build on this system ignores, such as the guest's
// main.
func (p *goPackage) addIgnored() error {
	for _, name := range p.IgnoredGoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		var imports []string
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, imported)
		}
		if strings.HasSuffix(name, "_test.go") {
			p.TestImportsElsewhere = append(p.TestImportsElsewhere, imports...)
			continue
		}
		p.ImportsElsewhere = append(p.ImportsElsewhere, imports...)
		p.GoFiles = append(p.GoFiles, name)
		if p.Name == "" {
			p.Name = f.Name.Name
		}
		if p.Doc == "" {
			p.Doc = f.Doc.Text()
		}
	}
	return nil
}

// built returns the imports of the product, tested those of tests too.
func (p *goPackage) built() []string { return slices.Concat(p.Imports, p.ImportsElsewhere) }
func (p *goPackage) tested() []string {
	return slices.Concat(p.built(), p.TestImports, p.XTestImports, p.TestImportsElsewhere)
}

// folder returns the package's folder in the module, "" for its root.
func (p *goPackage) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// within reports whether a package is in a folder or below it.
func within(importPath, folder string) bool {
	return importPath == folder || strings.HasPrefix(importPath, folder+"/")
}

// checkImports returns the violations of the rules about imports, one line each.
func checkImports(pkgs []*goPackage) []string {
	var complaints []string
	byPath := map[string]*goPackage{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	for _, p := range pkgs {
		complaints = append(complaints, checkLibraries(p)...)
		for _, rule := range neverImport {
			if rule.from != "" && !within(p.folder(), rule.from) {
				continue
			}
			if chain := findImport(byPath, p, path.Join(module, rule.what)); chain != nil && !within(p.folder(), rule.what) {
				complaints = append(complaints, fmt.Sprintf("%s must not import %s: %s",
					p.folder(), rule.what, strings.Join(chain, " -> ")))
			}
		}
	}
	return complaints
}

// checkLibraries checks one package with librariesOf, and that abi imports only the
// standard library.
func checkLibraries(p *goPackage) []string {
	var complaints []string
	for _, imported := range p.built() {
		for _, rule := range librariesOf {
			// A package that may use a library does not share that right with packages
			// below it, unless the rule says so.
			if within(imported, rule.library) && !mayImport(rule.allowed, p.folder()) {
				complaints = append(complaints, fmt.Sprintf("%s imports %s, which is only for %s",
					p.folder(), imported, strings.Join(rule.allowed, ", ")))
			}
		}
		first, _, _ := strings.Cut(imported, "/")
		if p.folder() == "abi" && strings.Contains(first, ".") {
			complaints = append(complaints, fmt.Sprintf("abi imports %s, and may import only the standard library", imported))
		}
	}
	return complaints
}

func mayImport(allowed []string, folder string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		below, all := strings.CutSuffix(a, "/...")
		return folder == below || all && strings.HasPrefix(folder, below+"/")
	})
}

// findImport returns the shortest chain of imports of ours from p to a package in
// folder, nil if there is none. Only the tests of p itself count.
func findImport(byPath map[string]*goPackage, p *goPackage, folder string) []string {
	type step struct {
		imports []string
		chain   []string
	}
	seen := map[string]bool{p.ImportPath: true}
	for queue := []step{{p.tested(), []string{p.ImportPath}}}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range queue[0].imports {
			next := byPath[imported]
			if next == nil || seen[imported] {
				continue
			}
			seen[imported] = true
			chain := append(slices.Clone(queue[0].chain), imported)
			if within(imported, folder) {
				return chain
			}
			queue = append(queue, step{next.built(), chain})
		}
	}
	return nil
}

// checkNames returns the violations of the rules about names and comments of packages.
func checkNames(pkgs []*goPackage) []string {
	var complaints []string
	for _, p := range pkgs {
		for _, name := range []string{p.Name, path.Base(p.ImportPath)} {
			if slices.Contains(bannedNames, name) {
				complaints = append(complaints, fmt.Sprintf("%s: a package named %s says nothing about what is in it", p.folder(), name))
				break
			}
		}
		if len(p.CgoFiles) > 0 {
			complaints = append(complaints, fmt.Sprintf("%s: cgo in %s", p.folder(), strings.Join(p.CgoFiles, ", ")))
		}
		if len(p.GoFiles) > 0 && strings.TrimSpace(p.Doc) == "" {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no doc comment", p.folder(), p.Name))
		}
	}
	return complaints
}

// checkLength returns which Go files are too long, and how many files it has checked.
func checkLength(root fs.FS) (complaints []string, files int, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			hidden := name != "." && strings.HasPrefix(base, ".")
			if hidden || base == "testdata" || base == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		files++
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if lines := bytes.Count(data, []byte("\n")); lines > maxLines {
			complaints = append(complaints, fmt.Sprintf("%s has %d lines, more than %d", name, lines, maxLines))
		}
		return nil
	})
	return complaints, files, err
}
