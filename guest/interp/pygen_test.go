package interp

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A pyGen writes programs with the same meaning in Python and in the dialect, with try
// statements, loops, functions and variables that may be unbound. The same seed always
// gives the same program.
type pyGen struct {
	rng     *rand.Rand
	out     strings.Builder
	indent  int
	loops   int
	funcs   []string // functions that can be called; none calls itself
	inDef   int
	inTry   int
	fresher string   // the last of the variables of fresh
	caught  []string // names of the errors that are being handled
	made    int
	left    int // number of statements left to write
}

// generate returns the program of a seed.
func generate(seed uint64) string {
	g := &pyGen{rng: rand.New(rand.NewPCG(seed, 1)), left: 25}
	if seed%2 == 1 { // with local variables, which are cells in Python, instead of globals
		g.line("def main():")
		g.indent++
	}
	g.line("def kind(e):")
	g.line("    return str(e) if str(e)[:1] == \"#\" else \"runtime\"")
	g.line("seen = []")
	unbound := max(0, g.rng.IntN(7)-3) // how many variables that the script could bind are not bound
	g.line("if seen:")
	g.line("    (a, b, c, d, i) = (0, 0, 0, 0, 0)")
	for i, name := range strings.Fields("d i c b a") {
		if i >= unbound {
			g.line("%s = %d", name, i)
		}
	}
	for range 2 + g.rng.IntN(3) {
		g.def(3)
	}
	for range 4 + g.rng.IntN(4) { // an error in one does not end the program
		g.left = 12
		g.line("try:")
		g.inTry++
		g.block(4)
		g.inTry--
		g.line("except Exception as e:")
		g.line("    print(\"top\", kind(e))")
		if g.rng.IntN(6) == 0 {
			g.statements(4, 1)
		}
	}
	g.line("print(\"end\", seen, a, b)")
	if g.indent > 0 {
		g.indent--
		g.line("main()")
	}
	return g.out.String()
}

func (g *pyGen) line(format string, args ...any) {
	fmt.Fprintf(&g.out, "%s%s\n", strings.Repeat("    ", g.indent), fmt.Sprintf(format, args...))
}

func (g *pyGen) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *pyGen) expr() string {
	switch g.rng.IntN(9) {
	case 0, 1, 2:
		return fmt.Sprint(g.rng.IntN(5))
	case 3, 4:
		return g.pick("a", "b", "c", "d", "i")
	case 5:
		return fmt.Sprintf("%s + %d", g.pick("a", "b", "c"), g.rng.IntN(3))
	case 6:
		return fmt.Sprintf("10 // (%s - %d)", g.pick("a", "b", "i"), g.rng.IntN(3))
	case 7:
		return fmt.Sprintf("len([%s for %s in range(%d)])", g.pick("a", "b", "i"), g.pick("a", "b", "i"), g.rng.IntN(3))
	default:
		if len(g.funcs) == 0 {
			return "7"
		}
		return fmt.Sprintf("%s(%d)", g.funcs[g.rng.IntN(len(g.funcs))], g.rng.IntN(4))
	}
}

func (g *pyGen) condition() string {
	return fmt.Sprintf("%s %s %d", g.pick("a", "b", "c", "i", "len(seen)"), g.pick("==", "<", ">", "!="), g.rng.IntN(4))
}

func (g *pyGen) block(depth int) {
	g.indent++
	g.statements(depth, 1+g.rng.IntN(3))
	g.indent--
}

func (g *pyGen) statements(depth, n int) {
	for range n {
		g.statement(depth)
	}
}

func (g *pyGen) statement(depth int) {
	g.left--
	if depth <= 0 || g.left < 0 {
		g.simple()
		return
	}
	switch g.rng.IntN(12) {
	case 0, 1, 2, 3:
		g.try(depth - 1)
	case 4:
		g.line("if %s:", g.condition())
		g.block(depth - 1)
		if g.rng.IntN(2) == 0 {
			g.line("else:")
			g.block(depth - 1)
		}
	case 5, 6:
		g.line("for %s in range(%d):", g.pick("i", "a", "b"), 1+g.rng.IntN(3))
		g.loop(depth - 1)
	case 7:
		g.made++
		g.line("w%d = 0", g.made)
		g.line("while w%d < %d:", g.made, 1+g.rng.IntN(3))
		g.indent++
		g.line("w%d += 1", g.made)
		g.indent--
		g.loop(depth - 1)
	case 8:
		g.def(depth - 1)
	default:
		g.simple()
	}
}

func (g *pyGen) loop(depth int) {
	g.loops++
	g.block(depth)
	g.loops--
}

func (g *pyGen) simple() {
	switch g.rng.IntN(20) {
	case 16, 17, 18:
		g.fresh()
	case 0, 1, 2:
		g.line("%s = %s", g.pick("a", "b", "c", "d"), g.expr())
	case 3:
		g.line("%s += %d", g.pick("a", "b", "c"), g.rng.IntN(3))
	case 4, 5:
		g.line("seen.append(%s)", g.expr())
	case 6:
		if g.inTry+g.inDef == 0 && g.rng.IntN(8) > 0 {
			g.line("c = %s", g.expr())
			return
		}
		g.line("raise Error(\"#E%d\")", g.rng.IntN(100))
	case 7:
		if g.inTry+g.inDef == 0 && g.rng.IntN(8) > 0 {
			g.line("d = demo.echo({\"x\": %s})[\"x\"]", g.expr())
			return
		}
		g.line("raise ToolError(\"#T%d\")", g.rng.IntN(100))
	case 8, 9:
		if g.loops > 0 {
			g.line("%s", g.pick("break", "continue"))
			return
		}
		g.line("print(\"p%d\", %s)", g.rng.IntN(100), g.expr())
	case 10:
		if g.inDef > 0 {
			g.line("return %s", g.expr())
			return
		}
		g.line("f = lambda x: x + %s", g.pick("a", "b", "c", "1"))
		g.line("print(\"f\", f(%d))", g.rng.IntN(5))
	case 11:
		switch n := len(g.caught); {
		case n == 0:
			g.line("pass")
		case g.rng.IntN(2) == 0 && g.caught[n-1] != "":
			g.line("raise %s", g.caught[n-1])
		default:
			g.line("raise")
		}
	case 12:
		g.line("(%s, %s) = (%s, %d)", g.pick("a", "b"), g.pick("c", "d"), g.expr(), g.rng.IntN(9))
	default:
		g.line("print(\"p%d\", %s)", g.rng.IntN(100), g.expr())
	}
}

// fresh uses a variable that may be bound in only one part of a try statement.
func (g *pyGen) fresh() {
	g.made++
	name := fmt.Sprintf("v%d", g.made)
	if g.fresher != "" && g.rng.IntN(3) == 0 {
		name = g.fresher
	}
	g.fresher = name
	switch g.rng.IntN(4) {
	case 0:
		g.line("if %s:", g.condition())
		g.line("    print(\"%s\", %s)", name, name)
		g.line("%s = %s", name, g.expr())
	case 1:
		g.line("if %s:", g.condition())
		g.line("    %s = %s", name, g.expr())
		g.line("print(\"%s\", %s)", name, name)
	case 2:
		g.line("%s = %s", name, g.expr())
		g.line("try:")
		g.line("    %s %s %s", name, g.pick("=", "+="), g.expr())
		g.line("finally:")
		g.line("    seen.append(%s)", name)
	default:
		g.line("%s = %s", name, g.expr())
		g.line("f = lambda: %s + 1", name)
		g.line("seen.append(f())")
	}
}

func (g *pyGen) try(depth int) {
	g.line("try:")
	g.inTry++
	g.block(depth)
	g.inTry--
	clauses := g.rng.IntN(4)
	for i := range clauses {
		name := g.pick("e", "e", "err", "")
		class := g.pick("Error", "ToolError", "(ToolError, Error)", "Exception")
		switch {
		case name != "":
			g.line("except %s as %s:", class, name)
		case i == clauses-1:
			g.line("except%s:", g.pick("", " "+class))
		default:
			g.line("except %s:", class)
		}
		g.caught = append(g.caught, name)
		if name != "" {
			g.indent++
			g.line("print(\"caught\", kind(%s))", name)
			g.indent--
		}
		g.block(depth)
		g.caught = g.caught[:len(g.caught)-1]
	}
	if clauses > 0 && g.rng.IntN(3) == 0 {
		g.line("else:")
		g.block(depth)
	}
	if clauses == 0 || g.rng.IntN(3) == 0 {
		g.line("finally:")
		g.block(depth)
	}
}

// def writes a function and makes its name available, but not the names inside it.
func (g *pyGen) def(depth int) {
	g.made++
	name := fmt.Sprintf("f%d", g.made)
	g.line("def %s(%s):", name, g.pick("a", "b", "i", "a, c=1", "a, *rest"))
	loops, caught, funcs, inTry := g.loops, g.caught, g.funcs, g.inTry
	g.loops, g.caught, g.inTry, g.fresher = 0, nil, 0, ""
	g.inDef++
	g.block(depth)
	g.inDef--
	g.loops, g.caught, g.inTry, g.fresher = loops, caught, inTry, ""
	g.funcs = append(funcs[:len(funcs):len(funcs)], name)
	if g.inDef > 0 {
		g.line("%s = %s(%d)", g.pick("a", "b", "c", "d"), name, g.rng.IntN(3))
	}
}
