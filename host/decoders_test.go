package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// decodersOfJSON are the functions that decode JSON into what they are given, with the index of that
// argument.
var decodersOfJSON = map[string]int{
	"encoding/json.Unmarshal":                                1,
	"(*encoding/json.Decoder).Decode":                        0,
	"github.com/go-json-experiment/json.Unmarshal":           1,
	"github.com/go-json-experiment/json.UnmarshalRead":       1,
	"github.com/go-json-experiment/json.UnmarshalDecode":     1,
	"github.com/santhosh-tekuri/jsonschema/v6.UnmarshalJSON": -1, // into any
}

// TestDecodersOfJSON checks that JSON of others does not become maps, slices and any, which can be fifty
// times as large as the text, except in tools/jsonvalue, which counts them first. decodersOf has the
// functions that decode JSON of our own or of the operator, or JSON whose size they limit.
func TestDecodersOfJSON(t *testing.T) {
	t.Parallel()
	found, err := findDecoders("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if decodersOf[where] == "" {
			t.Errorf("%s: %s decodes JSON into %s: use tools/jsonvalue, read tokens, or say in decodersOf why it cannot be large", found[where].at, where, found[where].into)
		}
	}
	for where := range decodersOf {
		if _, ok := found[where]; !ok {
			t.Errorf("decodersOf has %s, which decodes nothing of that kind", where)
		}
	}
}

type decoding struct{ at, into string }

// findDecoders returns the functions of the product that decode JSON into values of any number.
func findDecoders(root string) (map[string]decoding, error) {
	pkgs, exports, err := listExports(root)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	from := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	found := map[string]decoding{}
	for _, p := range pkgs {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				return nil, err
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := (&types.Config{Importer: from}).Check(p.ImportPath, files, parsed, info); err != nil {
			return nil, err
		}
		for _, f := range parsed {
			decodings(f, info, func(function string, call *ast.CallExpr, into string) {
				at := files.Position(call.Pos())
				found[p.folder()+"."+function] = decoding{fmt.Sprintf("%s/%s:%d", p.folder(), path.Base(filepath.ToSlash(at.Filename)), at.Line), into}
			})
		}
	}
	return found, nil
}

// listExports returns the packages of the product that import a decoder of JSON, and the files with
// the types of all packages.
func listExports(root string) (pkgs []*goPackage, exports map[string]string, err error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Imports,Export", "./cmd/...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	exports = map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			goPackage
			Export string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if within(p.ImportPath, module) && slices.ContainsFunc(p.Imports, func(i string) bool {
			return i == "encoding/json" || i == "github.com/go-json-experiment/json" || strings.HasPrefix(i, "github.com/santhosh-tekuri/jsonschema")
		}) {
			pkgs = append(pkgs, &p.goPackage)
		}
	}
}

// decodings calls found for each call in a file that decodes JSON into values of any number.
func decodings(f *ast.File, info *types.Info, found func(function string, call *ast.CallExpr, into string)) {
	for _, d := range f.Decls {
		function := "var"
		if of, ok := d.(*ast.FuncDecl); ok {
			function = of.Name.Name
			if of.Recv != nil {
				t := of.Recv.List[0].Type
				if star, ok := t.(*ast.StarExpr); ok {
					t = star.X
				}
				function = types.ExprString(t) + "." + function
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var name *ast.Ident
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				name = fun
			case *ast.SelectorExpr:
				name = fun.Sel
			default:
				return true
			}
			of, ok := info.Uses[name].(*types.Func)
			if !ok {
				return true
			}
			arg, ok := decodersOfJSON[of.FullName()]
			switch {
			case !ok:
			case arg < 0:
				found(function, call, "any")
			default:
				if into := unbounded(info.Types[call.Args[arg]].Type, map[types.Type]bool{}); into != "" {
					found(function, call, into)
				}
			}
			return true
		})
	}
}

// unbounded returns the part of a type that can have any number of values; "" if it has none. A type that
// decodes itself has none: what it calls is found there.
func unbounded(t types.Type, seen map[types.Type]bool) string {
	if seen[t] {
		return ""
	}
	seen[t] = true
	for _, method := range []string{"UnmarshalJSON", "UnmarshalJSONFrom", "UnmarshalText"} {
		if of, ok := t.(*types.Named); ok && types.NewMethodSet(types.NewPointer(of)).Lookup(of.Obj().Pkg(), method) != nil {
			return ""
		}
	}
	switch of := t.Underlying().(type) {
	case *types.Pointer:
		return unbounded(of.Elem(), seen)
	case *types.Array:
		return unbounded(of.Elem(), seen)
	case *types.Slice:
		if b, ok := of.Elem().Underlying().(*types.Basic); ok && b.Kind() == types.Byte {
			return ""
		}
		return t.String()
	case *types.Map, *types.Interface:
		return t.String()
	case *types.Struct:
		for field := range of.Fields() {
			if into := unbounded(field.Type(), seen); into != "" {
				return into
			}
		}
	}
	return ""
}

// Why functions may decode into values of any number.
const (
	own     = "we have written it: a store, a log, a file or a socket of ours"
	theirs  = "the operator has written it"
	counted = "jsonvalue.Few is asked before"
	sized   = "the text has 256 KB at most"
	into    = "the caller gives the type, which is one of ours"
)

// decodersOf says why functions may decode into values of any number.
var decodersOf = map[string]string{
	"tools/jsonvalue.Unmarshal":                  counted,
	"cmd/mcp-metatool/repl.replState.update":     own,
	"cmd/mcp-metatool/cli/control.Folder.Ask":    own,
	"host.ServerLabels.read":                     own,
	"host/guard/approval/documents.changes.Read": own,
	"host/guard/approval/documents.files.Read":   own,
	"host/durable.State.decode":                  own,
	"host/fleet.readReplica":                     own,
	"host/clients.Session.Restore":               own,
	"host/journal/shared.Journal.readCursors":    own,
	"host/journal/shared.readState":              own,
	"host/guard/pins.decode":                     theirs + ": a lock is reviewed like a configuration",
	"host/guard/plan.readKept":                   own,
	"host/guard/plan.Parse":                      own + ", or a verb of the command reads it",
	"host/script/sandbox.decode":                 into + ", and a batch has few calls (TestLargeBatch)",
	"host/config/secret.Names.List":              own,
	"host/setup/serverjson.unmarshal":            into + ", and the file is read by a verb of the command",
	"host/smoke.parseRows":                       theirs,
	"host/servers/oauth.Tokens.answer":           sized,
	"host/servers/oauth.Tokens.document":         sized,
	"host/servers/oauth.tokenFile.read":          own,
	"tools.Store.readCounts":                     own,
}
