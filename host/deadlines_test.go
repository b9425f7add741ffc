package host_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shortest is the shortest deadline that a test may have without tools/testenv.
const shortest = 30 * time.Second

// TestDeadlines checks that no test takes slowness for an error: a deadline of a test is at least
// half a minute, or comes from testenv.Deadline, and a time that is meant to run out is marked
// with testenv.Quiet. Code that runs in bubbles of synctest is not concerned.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	complaints, files := checkDeadlines(sources(t))
	if files < 100 {
		t.Fatalf("only %d files of tests found", files)
	}
	for _, c := range complaints {
		t.Error(c)
	}
}

// TestWatched checks that tools/testenv/watchdog is in every test binary.
func TestWatched(t *testing.T) {
	t.Parallel()
	pkgs := listPackages(t)
	byPath := map[string]*goPackage{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	for _, p := range pkgs {
		tests := len(p.TestImports)+len(p.XTestImports) > 0
		if tests && p.folder() != "tools/testenv/watchdog" && findImport(byPath, p, path.Join(module, "tools/testenv/watchdog")) == nil {
			t.Errorf("%s: no test imports tools/testenv/watchdog, which fails a test that hangs; write import _ %q in one of them",
				p.folder(), path.Join(module, "tools/testenv/watchdog"))
		}
	}
}

// TestCheckDeadlines checks that checkDeadlines finds violations.
func TestCheckDeadlines(t *testing.T) {
	for source, want := range map[string]int{
		`func TestA(t *testing.T) { context.WithTimeout(ctx, 5*time.Second) }`:                                         1,
		`func TestA(t *testing.T) { context.WithTimeoutCause(ctx, time.Minute/3, nil) }`:                               1,
		`func TestA(t *testing.T) { context.WithTimeout(ctx, time.Minute) }`:                                           0,
		`func TestA(t *testing.T) { context.WithTimeout(ctx, testenv.Quiet(time.Millisecond)) }`:                       0,
		`func TestA(t *testing.T) { context.WithTimeout(ctx, testenv.Deadline(time.Minute)) }`:                         0,
		`func TestA(t *testing.T) { context.WithTimeout(ctx, time.Duration(x)*time.Millisecond) }`:                     1,
		`func TestA(t *testing.T) { context.WithTimeout(ctx, time.Duration(x)*time.Minute) }`:                          0,
		`func TestA(t *testing.T) { context.WithDeadline(ctx, time.Now().Add(time.Second)) }`:                          1,
		`func TestA(t *testing.T) { for end := time.Now().Add(time.Second); ; { } }`:                                   1,
		`func TestA(t *testing.T) { expires := time.Now().Add(time.Second) }`:                                          0,
		`const long = 20 * time.Second; func TestA(t *testing.T) { select { case <-time.After(long): } }`:              1,
		`func TestA(t *testing.T) { const long = time.Second; time.NewTimer(2 * long) }`:                               1,
		`func TestA(t *testing.T) { time.AfterFunc(time.Second, f); c.SetReadDeadline(time.Now().Add(time.Second)) }`:  2,
		`func TestA(t *testing.T) { _ = http.Client{Timeout: time.Second}; _ = net.Dialer{Timeout: 5 * time.Second} }`: 2,
		`func TestA(t *testing.T) { _ = Spec{Timeout: time.Second} }`:                                                  0, // of the product
		`func TestA(t *testing.T) { cmd.WaitDelay = time.Second; _ = exec.Cmd{WaitDelay: time.Second} }`:               2,
		`func TestA(t *testing.T) { time.Sleep(time.Second) }`:                                                         1,
		`func TestA(t *testing.T) { for !done() { time.Sleep(time.Millisecond) } }`:                                    0,
		`func TestA(t *testing.T) { for range 6000 { time.Sleep(time.Millisecond) } }`:                                 0,
		`func TestA(t *testing.T) { for ; !done(); time.Sleep(time.Millisecond) { } }`:                                 0,
		`const patience = time.Second`: 1,
		`func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1); f() }) }; func f() { time.After(1) }`:                                 0,
		`func TestA(t *testing.T) { synctest.Test(t, f); f() }; func f() { time.After(1) }`:                                                                    1,
		`func bubble(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }; func TestA(t *testing.T) { bubble(t, func() { time.After(1) }) }`: 0,
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "a_test.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := shortDeadlines(set, map[string]*ast.File{"a_test.go": f}); len(got) != want {
			t.Errorf("%s: %q, want %d", source, got, want)
		}
	}
}

// checkDeadlines returns the violations, and the number of files of tests.
func checkDeadlines(s *goSources) (complaints []string, files int) {
	folders := map[string]map[string]*ast.File{}
	for name, f := range s.files {
		folder := path.Dir(name)
		if folders[folder] == nil {
			folders[folder] = map[string]*ast.File{}
		}
		folders[folder][name] = f
		if isTest(name, f) {
			files++
		}
	}
	for _, sources := range folders {
		complaints = append(complaints, shortDeadlines(s.set, sources)...)
	}
	slices.Sort(complaints)
	return complaints, files
}

// isTest reports whether a file belongs to tests: to one, or to a package for tests.
func isTest(name string, f *ast.File) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") && path.Dir(name) != "host/journal/backtest" ||
		slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}

// deadlineNames are names of times that bound waits of a test, and momentNames of ends of waits.
var (
	deadlineNames = regexp.MustCompile(`^(patience|maxWait|stuck|[a-z]*(Timeout|Deadline|Patience)|timeout|deadline)$`)
	momentNames   = regexp.MustCompile(`^(end|late|deadline|until|limit|timeout)$`)
)

// durations are the positions of durations among the arguments of functions that make deadlines.
var durations = map[string]int{
	"context.WithTimeout": 1, "context.WithTimeoutCause": 1, "context.WithDeadline": 1, "context.WithDeadlineCause": 1,
	"time.After": 0, "time.NewTimer": 0, "time.AfterFunc": 0, "net.DialTimeout": 2,
	".SetDeadline": 0, ".SetReadDeadline": 0, ".SetWriteDeadline": 0,
}

// deadlineCheck checks the tests of a folder.
type deadlineCheck struct {
	set        *token.FileSet
	values     []map[string]ast.Expr // of names: of the folder, of the function
	virtual    map[string]bool       // functions that run in bubbles only
	complaints []string
}

// shortDeadlines returns the violations of the tests of a folder.
func shortDeadlines(set *token.FileSet, sources map[string]*ast.File) []string {
	c := &deadlineCheck{set: set, values: []map[string]ast.Expr{{}}, virtual: virtualFunctions(sources)}
	for _, f := range sources {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				collectValues(g, c.values[0])
			}
		}
	}
	for name, f := range sources {
		if !isTest(name, f) {
			continue
		}
		for _, d := range f.Decls {
			fn, isFunc := d.(*ast.FuncDecl)
			if isFunc && c.virtual[fn.Name.Name] {
				continue
			}
			local := map[string]ast.Expr{}
			if isFunc {
				collectValues(d, local)
			}
			c.values = append(c.values[:1], local)
			c.walk(d, false)
		}
	}
	return c.complaints
}

// collectValues notes the values that names are declared with.
func collectValues(n ast.Node, values map[string]ast.Expr) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					values[name.Name] = n.Values[i]
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) {
					values[name.Name] = n.Rhs[i]
				}
			}
		}
		return true
	})
}

// walk checks what is not in a bubble.
func (c *deadlineCheck) walk(n ast.Node, loop bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if !loop {
				c.walk(n, true)
				return false
			}
		case *ast.CallExpr:
			name := called(n.Fun)
			if c.virtual[name] {
				return false
			}
			if i, ok := durations[name]; ok && i < len(n.Args) {
				c.check(name, n.Args[i])
			} else if i, ok := durations["."+afterDot(name)]; ok {
				c.check(afterDot(name), n.Args[i])
			}
			if name == "time.Sleep" && !loop {
				c.check(name, n.Args[0])
			}
		case *ast.CompositeLit:
			c.literal(n)
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if deadlineNames.MatchString(name.Name) && i < len(n.Values) {
					c.check(name.Name, n.Values[i])
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if len(n.Lhs) != len(n.Rhs) {
					break
				}
				switch name := afterDot(called(left)); {
				case name == "WaitDelay", n.Tok == token.DEFINE && deadlineNames.MatchString(name):
					c.check(name, n.Rhs[i])
				case momentNames.MatchString(name) && moment(n.Rhs[i]) != nil:
					c.check(name, n.Rhs[i])
				}
			}
		}
		return true
	})
}

// literal checks settings of the standard library that bound waits.
func (c *deadlineCheck) literal(n *ast.CompositeLit) {
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		of, key := called(n.Type), called(kv.Key)
		if key == "Timeout" && (of == "http.Client" || of == "net.Dialer") || key == "WaitDelay" && of == "exec.Cmd" {
			c.check(of+"."+key, kv.Value)
		}
	}
}

// check complains about a duration, or a moment such as time.Now().Add(d), if it is too short.
func (c *deadlineCheck) check(name string, e ast.Expr) {
	if d := moment(e); d != nil {
		e = d
	}
	if d, ok := c.duration(e, 0); ok && d < shortest {
		c.complaints = append(c.complaints, fmt.Sprintf(
			"%s: %s is less than %v: use testenv.Deadline for what must happen, testenv.Quiet for a time that is meant to run out",
			c.set.Position(e.Pos()), name, shortest))
	}
}

// moment returns d of time.Now().Add(d).
func moment(e ast.Expr) ast.Expr {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Add" {
			if now, ok := s.X.(*ast.CallExpr); ok && called(now.Fun) == "time.Now" {
				return call.Args[0]
			}
		}
	}
	return nil
}

// duration returns the value of a duration. Of one that is only known when the test runs, it
// knows that it is short if it counts milliseconds or less.
func (c *deadlineCheck) duration(e ast.Expr, depth int) (time.Duration, bool) {
	units := map[string]time.Duration{
		"time.Nanosecond": 1, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
		"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
	}
	if depth > 10 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.duration(e.X, depth+1)
	case *ast.BasicLit:
		v, ok := constant.Float64Val(constant.ToFloat(constant.MakeFromLiteral(e.Value, e.Kind, 0)))
		return time.Duration(v), ok && v >= 1
	case *ast.Ident:
		for _, values := range slices.Backward(c.values) {
			if v, ok := values[e.Name]; ok {
				return c.duration(v, depth+1)
			}
		}
	case *ast.SelectorExpr:
		d, ok := units[called(e)]
		return d, ok
	case *ast.CallExpr:
		if called(e.Fun) == "time.Duration" {
			return c.duration(e.Args[0], depth+1)
		}
	case *ast.BinaryExpr:
		x, okX := c.duration(e.X, depth+1)
		y, okY := c.duration(e.Y, depth+1)
		switch {
		case okX && okY && e.Op == token.MUL:
			return x * y, true
		case okX && okY && e.Op == token.QUO && y != 0:
			return x / y, true
		case okX && okY && e.Op == token.ADD:
			return x + y, true
		case okX && okY && e.Op == token.SUB:
			return x - y, true
		case e.Op == token.MUL && okX && x > 1 && x <= time.Millisecond, e.Op == token.MUL && okY && y > 1 && y <= time.Millisecond:
			return 0, slices.ContainsFunc([]ast.Expr{e.X, e.Y}, func(x ast.Expr) bool { return units[called(x)] != 0 })
		}
	}
	return 0, false
}

// called returns the name of a function, type or field as "pkg.Name" or "Name", "" without one.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := called(e.X); x != "" {
			return afterDot(x) + "." + e.Sel.Name
		}
		return e.Sel.Name
	}
	return ""
}

func afterDot(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
