package host_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readers are the functions that open files, with their package; methods of os.Root
// begin with a dot.
var readers = []string{
	"os.Open", "os.OpenRoot", "os.OpenFile", "os.ReadFile", "os.DirFS", "os.CopyFS", "os.NewFile",
	"io/ioutil.ReadFile", "io/ioutil.ReadDir", "io/fs.ReadFile", "syscall.Open", "golang.org/x/sys/unix.Open",
	"crypto/tls.LoadX509KeyPair", "html/template.ParseFiles", "text/template.ParseFiles",
	"github.com/BurntSushi/toml.DecodeFile", "github.com/BurntSushi/toml.DecodeFS",
	"github.com/gofrs/flock.New",
	".Open", ".OpenFile", ".ReadFile", ".FS",
}

// mayRead lists the places that may open files without package regular: file and
// function, or whole files and packages, with the reason.
var mayRead = map[string]string{
	"tools/regular/regular.go OpenRoot os.OpenRoot": "the name is that of a folder",
	"tools/regular/regular.go Names .Open":          "the folder itself, for its names",
	"tools/regular/regular.go OpenFile os.OpenFile": "the reader of all others; looks before and after",
	"tools/regular/regular.go OpenIn .OpenFile":     "likewise",

	"host/confine/subreaper":                                         "the kernel's files in /proc and /sys/fs/cgroup, and /dev/null",
	"host/confine/restrict":                                          "the kernel's files in /proc",
	"host/confine/trace/trace_linux.go":                              "files in a folder that only we can enter, pipes of ours, and the kernel's files in /proc",
	"host/mcp/budget/machine.go":                                     "what the kernel says of memory, in /proc and /sys",
	"host/mcp/budget/machine_linux.go":                               "likewise",
	"host/script/sandbox/image_linux.go newCOWImage os.Open":         "/proc/self/pagemap",
	"host/script/sandbox/code_linux.go codeRegions os.ReadFile":      "/proc/self/maps",
	"host/servers/process/group_linux.go startSupervised os.NewFile": "our end of a pair of sockets",
	"tools/regular/write.go WriteTemp .OpenFile":                     "writes a new file (O_EXCL)",
	"cmd/mcp-metatool/cli/control/folder.go open .Open":              "the folder itself",
	"cmd/mcp-metatool/cli/control/folder.go Sockets .FS":             "for the names in a folder",
	"host/script/sandbox/skeleton.go CachedGuests .FS":               "for the names and times in a folder",

	"tools/dir.go readNames .Open":                                "the folder itself, for its names",
	"tools/regular/write_other.go SyncFolder .Open":               "the folder itself, to make it durable",
	"tools/regular/regular.go NewLock github.com/gofrs/flock.New": "never waits",
	"host/smoke/report/github.go appendTo os.OpenFile":            "writes to what the variable names",
}

// notProduct are folders with programs for development and tests.
var notProduct = []string{"scripts", "host/mcptest", "guest/guestbuild", "host/script/sandbox/sandboxtest", "host/script/sandbox/guestcache", "host/store/foldertest", "abi/abitest", "guest", "tools/testenv"}

// TestFilesAreReadByPackageRegular checks that the product opens files only with package
// regular: a named pipe would block forever, and a device would never end.
func TestFilesAreReadByPackageRegular(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	files := 0
	product := sources(t).product()
	roots := map[string]map[string]bool{} // by package
	for name, file := range product {
		pkg := path.Dir(name)
		if roots[pkg] == nil {
			roots[pkg] = map[string]bool{}
		}
		addRoots(file, roots[pkg])
	}
	for name, file := range product {
		files++
		for _, at := range readsIn(name, file, roots[path.Dir(name)]) {
			file, _, _ := strings.Cut(at, " ")
			for _, whole := range []string{file, path.Dir(file)} {
				if mayRead[whole] != "" {
					at = whole
				}
			}
			if used[at] = true; mayRead[at] == "" {
				t.Errorf("%s: read files with package tools/regular, or say here why not", at)
			}
		}
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
	for at := range mayRead {
		if !used[at] {
			t.Errorf("%s: this call no longer exists", at)
		}
	}
}

// addRoots adds the names of fields, parameters and variables in a file that are an
// *os.Root.
func addRoots(file *ast.File, names map[string]bool) {
	add := func(all []*ast.Ident) {
		for _, id := range all {
			names[id.Name] = true
		}
	}
	isRoot := func(typ ast.Expr) bool {
		star, ok := typ.(*ast.StarExpr)
		if !ok {
			return false
		}
		sel, ok := star.X.(*ast.SelectorExpr)
		return ok && qualified(file, sel) == "os.Root"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if isRoot(n.Type) {
				add(n.Names)
			}
		case *ast.ValueSpec:
			if isRoot(n.Type) {
				add(n.Names)
			}
		case *ast.AssignStmt:
			call, ok := n.Rhs[0].(*ast.CallExpr)
			if !ok {
				return true
			}
			id, named := n.Lhs[0].(*ast.Ident)
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && named && sel.Sel.Name == "OpenRoot" {
				add([]*ast.Ident{id})
			}
		}
		return true
	})
}

// readsIn returns the uses of readers in a file, each once: "file function reader". A
// reader counts whether it is called or used as a value. roots are the names of values
// of type *os.Root.
func readsIn(name string, file *ast.File, roots map[string]bool) []string {
	return usesIn(name, file, readers, roots)
}

func usesIn(name string, file *ast.File, of []string, roots map[string]bool) []string {
	found := map[string]bool{}
	for _, decl := range file.Decls {
		within := "-"
		if f, ok := decl.(*ast.FuncDecl); ok {
			within = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			r := qualified(file, sel)
			if slices.Contains(of, r) && (r[0] != '.' || roots[lastName(sel.X)]) {
				found[fmt.Sprintf("%s %s %s", name, within, r)] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// qualified returns a selector with the path of its package; if it belongs to no
// package, the result begins with a dot.
func qualified(file *ast.File, sel *ast.SelectorExpr) string {
	if id, ok := sel.X.(*ast.Ident); ok {
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == id.Name {
				return imported + "." + sel.Sel.Name
			}
		}
	}
	return "." + sel.Sel.Name
}

// lastName returns x for x and a.b.x, "" for other expressions.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// decoders are the functions of the TOML library that read text.
var decoders = []string{
	"github.com/BurntSushi/toml.Decode", "github.com/BurntSushi/toml.DecodeFile", "github.com/BurntSushi/toml.DecodeFS",
	"github.com/BurntSushi/toml.Unmarshal", "github.com/BurntSushi/toml.NewDecoder",
}

// TestTOMLIsGuarded checks that the TOML library gets only text that was checked
// before, since deeply nested text would end the process.
func TestTOMLIsGuarded(t *testing.T) {
	t.Parallel()
	calls := 0
	for name, file := range sources(t).product() {
		for _, at := range usesIn(name, file, decoders, nil) {
			if calls++; at != "tools/tomldoc/tomldoc.go Decode github.com/BurntSushi/toml.Decode" {
				t.Errorf("%s: decode TOML with package tools/tomldoc", at)
			}
		}
	}
	if calls == 0 {
		t.Error("no call was found")
	}
}

func TestReadersAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p
import (
	"io/ioutil"
	other "os"
	"x/regular"
)
var read = other.ReadFile
type s struct { top *other.Root }
func f(root *other.Root) { root.Open("x"); other.Open("x"); ioutil.ReadFile("x"); regular.Open("x"); other.Stat("x") }
func g(s *s, file x) { file.Open("x"); sub, _ := other.OpenRoot("."); use(sub.ReadFile); s.top.FS(); file.FS() }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"p.go - os.ReadFile", "p.go f .Open", "p.go f io/ioutil.ReadFile", "p.go f os.Open",
		"p.go g .FS", "p.go g .ReadFile", "p.go g os.OpenRoot"}
	roots := map[string]bool{}
	addRoots(file, roots)
	if got := readsIn("p.go", file, roots); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
