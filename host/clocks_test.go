package host_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClocks checks that no test has both a literal date and the system's clock, and
// that a package that takes a clock reads no other. Otherwise a suite that passes today
// fails on another day.
func TestClocks(t *testing.T) {
	t.Parallel()
	s := sources(t)
	if len(s.files) < 100 {
		t.Fatalf("only %d Go files found", len(s.files))
	}
	for _, c := range checkClocks(s) {
		t.Error(c)
	}
}

// TestCheckClocks checks that checkClocks finds violations.
func TestCheckClocks(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{
		`func TestA(t *testing.T) { _ = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Before(time.Now()) }`:                              1,
		`var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC); func TestA(t *testing.T) { _ = time.Since(noon) }`:                    1,
		`func TestA(t *testing.T) { open("journal-2026-11-21.jsonl"); _ = time.Now() }`:                                                   1,
		`func TestA(t *testing.T) { open("20261121T120000Z"); f(time.Now) }`:                                                              1,
		`func TestA(t *testing.T) { speak("2026-07-28", "2025-11-25"); _ = time.Now() }`:                                                  0, // revisions of MCP
		`func TestA(t *testing.T) { _ = time.Now() }; func TestB(t *testing.T) { _ = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) }`:       0,
		`var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC); func TestA(t *testing.T) { x.noon(time.Now()) }`:                      0,
		`var at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC); var late = at.Add(1); func TestA(t *testing.T) { f(late, time.Until) }`: 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a_test.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := mixedDates([]*ast.File{f}); len(got) != want {
			t.Errorf("%s: %q, want %d", source, got, want)
		}
	}
	const clock = "type Options struct { Now func() time.Time }\n"
	for source, want := range map[string]int{
		clock + "func f() { _ = time.Now() }":                 1,
		clock + "func f() { _ = time.Since(x) }":              1,
		clock + "func f(o *Options) { o.Now = time.Now }":     0,
		"func f() { _ = time.Now() }":                         0,
		clock + "func f() { time.AfterFunc(1, time.Now().F)}": 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strayClocks([]*ast.File{f}); len(got) != want {
			t.Errorf("%s: %q, want %d", source, got, want)
		}
	}
}

// checkClocks returns the violations of the rules.
func checkClocks(s *goSources) (complaints []string) {
	product, tests := map[string][]*ast.File{}, map[string][]*ast.File{}
	for name, f := range s.files {
		of := product
		if strings.HasSuffix(name, "_test.go") {
			of = tests
		}
		of[path.Dir(name)] = append(of[path.Dir(name)], f)
	}
	for dir, f := range tests {
		for _, c := range mixedDates(f) {
			complaints = append(complaints, dir+": "+c)
		}
	}
	for dir, f := range product {
		for _, c := range strayClocks(f) {
			complaints = append(complaints, dir+": "+c)
		}
	}
	slices.Sort(complaints)
	return complaints
}

// literalDate matches dates in text: 2026-11-21, 20261121T...
var literalDate = regexp.MustCompile(`\b20\d\d-[01]\d-[0-3]\d|\b20\d\d[01]\d[0-3]\dT`)

// revision matches what looks like a date but is a revision of MCP, or a layout of
// package time.
var revision = regexp.MustCompile(`\b(2006-01-02|2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28)\b`)

// isClock reports whether n reads the system's clock, or is a function that does.
func isClock(n ast.Node) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name)
}

// hasDate reports whether n contains a literal date, or a variable that has one.
func hasDate(n ast.Node, dated map[string]bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr: // Sel is a name in X, not a variable
			found = found || hasDate(n.X, dated)
			return false
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if ok && sel.Sel.Name == "Date" && len(n.Args) > 0 {
				_, literal := n.Args[0].(*ast.BasicLit)
				found = found || literal
			}
		case *ast.BasicLit:
			found = found || n.Kind == token.STRING && literalDate.MatchString(revision.ReplaceAllString(n.Value, ""))
		case *ast.Ident:
			found = found || dated[n.Name]
		}
		return !found
	})
	return found
}

// mixedDates returns the functions of a package's tests that use both a literal date
// and the system's clock.
func mixedDates(files []*ast.File) (complaints []string) {
	dated := map[string]bool{}
	for more := true; more; {
		more = false
		eachDecl[*ast.GenDecl](files, func(d *ast.GenDecl) {
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && !dated[v.Names[0].Name] && hasDate(v, dated) {
					dated[v.Names[0].Name], more = true, true
				}
			}
		})
	}
	eachDecl[*ast.FuncDecl](files, func(d *ast.FuncDecl) {
		clock := false
		ast.Inspect(d, func(n ast.Node) bool {
			clock = clock || n != nil && isClock(n)
			return !clock
		})
		if clock && hasDate(d, dated) {
			complaints = append(complaints, fmt.Sprintf("%s has a literal date and reads the system's clock (give what it tests a clock, or take all times from one)", d.Name.Name))
		}
	})
	return complaints
}

// strayClocks returns the functions of a package with an injected clock (a field Now
// that is a function) that read the system's clock.
func strayClocks(files []*ast.File) (complaints []string) {
	injected := false
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && len(field.Names) == 1 && field.Names[0].Name == "Now" {
				_, isFunc := field.Type.(*ast.FuncType)
				injected = injected || isFunc
			}
			return true
		})
	}
	if !injected {
		return nil
	}
	eachDecl[*ast.FuncDecl](files, func(d *ast.FuncDecl) {
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isClock(call.Fun) {
				complaints = append(complaints, fmt.Sprintf("%s reads the system's clock, though the package takes one (Now)", d.Name.Name))
			}
			return true
		})
	})
	return complaints
}

func eachDecl[T ast.Decl](files []*ast.File, f func(T)) {
	for _, file := range files {
		for _, d := range file.Decls {
			if d, ok := d.(T); ok {
				f(d)
			}
		}
	}
}
