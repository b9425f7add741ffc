package interp

// matching writes a match statement, and what it does with some values.
func (g *featureGen) matching() {
	patterns := [][2]string{
		{"[a, b]", "(a, b)"}, {"[a, *r]", "(a, r)"}, {"[*r, a]", "(r, a)"}, {"(a, [b, *_])", "(a, b)"}, {"[]", `"empty"`},
		{`{"k": v}`, "v"}, {`{"k": v, **rest}`, "(v, rest)"}, {"{}", `"dict"`}, {"int(n) if n > 1", "n"}, {"str() as s", "s"},
		{"1 | 2 | -3", `"small"`}, {"None", `"none"`}, {"True | False", `"bool"`}, {"float(y)", "y"}, {"P$(x=1, y=q)", "q"},
		{"P$(p, q) if p == q", "p"}, {"P$()", `"P"`}, {"[1, x] | [x, 1]", "x"}, {`"a" | "b" as t`, "t"}, {`{"k": [h, *_]} | {"j": h}`, "h"},
	}
	g.lines(`
from dataclasses import dataclass
@dataclass
class P$:
    x: int
    y: int = %d
def m$(v):
    match v:`, g.n(0, 3))
	for range g.n(1, 6) {
		p := patterns[g.rng.IntN(len(patterns))]
		g.lines("        case %s:\n            return %s", p[0], p[1])
	}
	g.lines("%s", g.pick("        case _:\n            return \"other\"", "        case whole:\n            return str(whole) == \"\"", "    return \"end\""))
	g.lines(`for v$ in [%s, "a", "xyz", 1, 2, -3, 7, True, None, 2.5, [], (4, [5, 6]), {"k": %s}, {"j": 8}, {}, P$(1), P$(2, 2), P$(1, %d), range(3)]:
    attempt(lambda: m$(v$))`, g.ints(3), g.ints(2), g.n(0, 4))
}

func (g *featureGen) decimal() string {
	return g.pick("Decimal(\"0.1\")", "Decimal(\"-2.50\")", "Decimal(7)", "Decimal(\"1E+3\")", "Decimal(\"0\")", "Decimal(\"-0.00\")", "Decimal(\"123456789.987654321\")",
		"Decimal(\"3.005\")", "Decimal(\"1e-9\")", "Decimal(0.1)", "Decimal(\"99.995\")", "Decimal(\"10\") / 3", "3", "-2")
}

func (g *featureGen) decimals() {
	rounding := "decimal." + g.pick("ROUND_UP", "ROUND_DOWN", "ROUND_CEILING", "ROUND_FLOOR", "ROUND_HALF_UP", "ROUND_HALF_DOWN", "ROUND_HALF_EVEN", "ROUND_05UP")
	g.lines("import decimal\nfrom decimal import Decimal")
	for range 3 {
		g.attempt("str(%s %s %s)", g.decimal(), g.pick("+", "-", "*", "/", "//", "%"), g.decimal())
	}
	g.attempt("%s %s %s", g.decimal(), g.pick("<", "<=", "==", "!=", ">", ">="), g.decimal())
	g.attempt("str(Decimal(%s) ** %d)", g.decimal(), g.n(-3, 6))
	g.attempt("str(Decimal(%s).quantize(Decimal(\"%s\"), rounding=%s))", g.decimal(), g.pick("1", "0.1", "0.01", "0.001", "1E+1"), rounding)
	g.attempt("str(Decimal(%s).%s)", g.decimal(), g.pick("normalize()", "sqrt()", "copy_abs()", "to_integral_value()", "adjusted()", "is_zero()"))
	g.attempt("str(%s(Decimal(%s)))", g.pick("abs", "int", "float", "round", "bool", "repr"), g.decimal())
	g.attempt("str(round(Decimal(%s), %d))", g.decimal(), g.n(-1, 3))
	g.attempt("format(Decimal(%s), %q)", g.decimal(), g.pick("", ".2f", ",.3f", "10.1f", "<8.2f", "+.0f", "e", ".3e", ".2g", "%", ".1%", "08.2f"))
	g.attempt("str(sum([%s, %s, Decimal(1)]))", g.decimal(), g.decimal())
}

func (g *featureGen) fraction() string {
	return g.pick("Fraction(1, 3)", "Fraction(-7, 2)", "Fraction(\"0.125\")", "Fraction(\"-3/9\")", "Fraction(0)", "Fraction(5)", "Fraction(0.75)", "2", "-3", "0.5")
}

func (g *featureGen) fractions() {
	g.lines("from fractions import Fraction\nimport math")
	for range 3 {
		g.attempt("str(%s %s %s)", g.fraction(), g.pick("+", "-", "*", "/", "//", "%"), g.fraction())
	}
	g.attempt("%s %s %s", g.fraction(), g.pick("<", "<=", "==", "!=", ">", ">="), g.fraction())
	g.attempt("str(Fraction(%s) ** %d)", g.fraction(), g.n(-3, 3))
	g.attempt("str(%s(Fraction(%s)))", g.pick("abs", "int", "float", "round", "bool", "math.floor", "math.ceil", "repr"), g.fraction())
	g.attempt("str(round(Fraction(%s), %d))", g.fraction(), g.n(-1, 3))
	g.attempt("str(Fraction(%d, %d).limit_denominator(%d))", g.n(-99, 99), g.n(0, 99), g.n(1, 9))
}

func (g *featureGen) enums() {
	kind := g.pick("Enum", "IntEnum", "StrEnum")
	values := [2]string{"1", "2"}
	if kind == "StrEnum" {
		values = [2]string{`"a"`, `"b"`}
	}
	g.lines("from enum import Enum, IntEnum, StrEnum\nclass E$(%s):\n    A = %s\n    B = %s\n    def low(self):\n        return self.name.lower()", kind, values[0], values[1])
	g.attempt("[m.name for m in E$]")
	g.attempt("E$[%q].value", g.pick("A", "B", "C"))
	g.attempt("str(E$(%s).low())", g.pick(values[0], values[1], "7"))
	g.attempt("str(E$.A %s %s)", g.pick("+", "*", "<", "==", "!=", ">="), g.pick("E$.B", values[0], values[1], "3", `"z"`))
	g.attempt("str(%s %s E$.B)", g.pick("E$.A", values[0], "3", `"z"`), g.pick("+", "-", "<", "==", "!="))
	g.attempt("[len(E$), E$.A in E$, max([m.value for m in E$]), {E$.A: 5}[E$.A]]")
}
