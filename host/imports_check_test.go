package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// These tests run the checks of imports_test.go on invented packages that violate the
// rules.

func made(folder string, imports ...string) *goPackage {
	return &goPackage{
		ImportPath: module + "/" + folder, Name: filepath.Base(folder), Doc: "Package x.",
		GoFiles: []string{"x.go"}, Imports: imports,
	}
}

func TestCheckImports(t *testing.T) {
	t.Parallel()
	testOf := func(p *goPackage, imports ...string) *goPackage {
		p.XTestImports = imports
		return p
	}
	elsewhere := func(p *goPackage, imports ...string) *goPackage {
		p.ImportsElsewhere = imports
		return p
	}
	tests := map[string]struct {
		pkgs []*goPackage
		want []string
	}{
		"all well": {pkgs: []*goPackage{
			made("abi", "strings", "encoding/json"),
			made("host/script/sandbox", "github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/api"),
			made("guest/interp", "go.starlark.net/starlark"),
			made("host/servers/oauth", "github.com/mark3labs/mcp-go/mcp"),
			made("host", module+"/host/script/sandbox", module+"/abi"),
			made("cmd/mcp-metatool", module+"/host"),
		}},
		"a library where it is not wanted": {
			pkgs: []*goPackage{made("host/script/compose", "github.com/tetratelabs/wazero/api")},
			want: []string{"host/script/compose imports github.com/tetratelabs/wazero/api, which is only for host/script/sandbox"},
		},
		"below the package that may": {
			pkgs: []*goPackage{made("guest/rewrite", "github.com/tetratelabs/wazero")},
			want: []string{"guest/rewrite imports github.com/tetratelabs/wazero, which is only for host/script/sandbox"},
		},
		"only for another system": {
			pkgs: []*goPackage{elsewhere(made("guest"), "go.starlark.net/syntax")},
			want: []string{"guest imports go.starlark.net/syntax, which is only for guest/interp, guest/parse, guest/stdlib/..."},
		},
		"a library in a test": {
			pkgs: []*goPackage{testOf(made("host/proxy/route"), "github.com/mark3labs/mcp-go/client")},
		},
		"another library of a similar name": {
			pkgs: []*goPackage{made("host/script/compose", "github.com/tetratelabs/wazero-extras")},
		},
		"more than the standard library": {
			pkgs: []*goPackage{made("abi", "golang.org/x/sync/errgroup")},
			want: []string{"abi imports golang.org/x/sync/errgroup, and may import only the standard library"},
		},
		"against the direction": {
			pkgs: []*goPackage{made("tools", module+"/host/config"), made("host/config")},
			want: []string{"tools must not import host: " + module + "/tools -> " + module + "/host/config"},
		},
		"indirectly": {
			pkgs: []*goPackage{
				made("abi/abitest", module+"/guest/x"), made("guest/x", module+"/host/mcp/wire"), made("host/mcp/wire"),
			},
			want: []string{"abi/abitest must not import host: " +
				module + "/abi/abitest -> " + module + "/guest/x -> " + module + "/host/mcp/wire"},
		},
		"from a test": {
			pkgs: []*goPackage{testOf(made("tools"), module+"/host"), made("host")},
			want: []string{"tools must not import host: " + module + "/tools -> " + module + "/host"},
		},
		"the command": {
			pkgs: []*goPackage{made("host", module+"/cmd/mcp-metatool"), made("cmd/mcp-metatool")},
			want: []string{"host must not import cmd: " + module + "/host -> " + module + "/cmd/mcp-metatool"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := checkImports(test.pkgs); !slices.Equal(got, test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	undocumented := made("host/mcp/wire")
	undocumented.Doc = "\n"
	cgo := made("host/clients")
	cgo.CgoFiles = []string{"c.go"}
	hidden := made("host/helpers")
	hidden.Name = "fine"
	tests := map[string]struct {
		pkg  *goPackage
		want []string
	}{
		"well":        {pkg: made("host/mcp/wire")},
		"banned":      {pkg: made("host/util"), want: []string{"host/util: a package named util says nothing about what is in it"}},
		"banned path": {pkg: hidden, want: []string{"host/helpers: a package named helpers says nothing about what is in it"}},
		"no comment":  {pkg: undocumented, want: []string{"host/mcp/wire: package wire has no doc comment"}},
		"cgo":         {pkg: cgo, want: []string{"host/clients: cgo in c.go"}},
		"only tests":  {pkg: &goPackage{ImportPath: module + "/e2e", Name: "e2e"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := checkNames([]*goPackage{test.pkg}); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCheckLength(t *testing.T) {
	t.Parallel()
	lines := func(n int) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Repeat("//\n", n))} }
	got, files, err := checkLength(fstest.MapFS{
		"a/exact.go": lines(maxLines), "a/long.go": lines(maxLines + 1), "b_test.go": lines(900),
		"a/testdata/x.go": lines(900), ".hidden/x.go": lines(900), "node_modules/x.go": lines(900), "a/x.txt": lines(900),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a/long.go has 801 lines, more than 800", "b_test.go has 900 lines, more than 800"}
	if !slices.Equal(got, want) || files != 3 {
		t.Errorf("got %q of %d files, want %q of 3", got, files, want)
	}
}

func TestAddIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"main.go":   "//go:build wasip1\n\n// Command x is x.\npackage main\n\nimport _ \"go.starlark.net/starlark\"\n",
		"x_test.go": "//go:build wasip1\n\npackage main\n\nimport _ \"testing\"\n",
	}
	p := &goPackage{ImportPath: module + "/guest", Dir: dir}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.IgnoredGoFiles = append(p.IgnoredGoFiles, name)
	}
	if err := p.addIgnored(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.built(), []string{"go.starlark.net/starlark"}) || !slices.Contains(p.tested(), "testing") {
		t.Errorf("imports %q and %q", p.built(), p.tested())
	}
	if p.Name != "main" || !strings.HasPrefix(p.Doc, "Command x") {
		t.Errorf("name %q, doc %q", p.Name, p.Doc)
	}
}
