package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/operator"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestOperator(t *testing.T) {
	scripts := []string{
		"operator.add(1, 2)",
		"operator.add('a', 'b')",
		"operator.add(1, 'b')",
		"operator.sub(5, 2)",
		"operator.mul(3, 'a')",
		"operator.truediv(1, 2)",
		"operator.truediv(1, 0)",
		"operator.floordiv(-7, 2)",
		"operator.mod(-7, 3)",
		"operator.mod(1, 0)",
		"operator.pow(2, 10)",
		"operator.pow(2, -1)",
		"operator.pow(0, -1)",
		"operator.pow(2.0, 0.5)",
		"operator.pow('a', 2)",
		"operator.pow(-1, 1 << 40)",
		"operator.pow(0, 0)",
		"operator.pow(10.0, 400)",
		"operator.neg(3)",
		"operator.neg('a')",
		"operator.abs(-3)",
		"operator.abs(-2.5)",
		"operator.abs('a')",
		"operator.invert(5)",
		"operator.not_([])",
		"operator.truth([1])",
		"operator.lt(1, 2)",
		"operator.lt(1, 'a')",
		"operator.eq(1, 1.0)",
		"operator.ne(1, 2)",
		"operator.contains([1, 2], 2)",
		"operator.countOf([1, 2, 1], 1)",
		"operator.indexOf([1, 2], 2)",
		"operator.indexOf([1], 5)",
		"operator.getitem([1, 2], -1)",
		"operator.getitem({'a': 1}, 'a')",
		"operator.getitem({'a': 1}, 'b')",
		"operator.getitem([1], 3)",
		"operator.getitem(1, 1)",
		"x = [1, 2]\noperator.setitem(x, -1, 9)\nr = x",
		"operator.itemgetter(1)([4, 5])",
		"operator.itemgetter(1, 'a')({1: 2, 'a': 3})",
		"operator.itemgetter()",
		"sorted([{'n': 2}, {'n': 1}], key=operator.itemgetter('n'))",
		"operator.itemgetter('x')({'a': 1})",
		"operator.methodcaller('upper')('abc')",
		"operator.methodcaller('split', ',')('a,b')",
		"operator.methodcaller('nope')('a')",
		"operator.attrgetter('nope')('a')",
		"operator.attrgetter(1)",
		"operator.and_(6, 3)",
		"operator.or_(6, 3)",
		"operator.xor(6, 3)",
		"operator.lshift(1, 4)",
		"operator.rshift(16, 2)",
		"operator.concat([1], [2])",
		"operator.index(True)",
		"operator.index(1.5)",
		"operator.add(True, 1)",
		"operator.length_hint([1, 2])",
		"operator.iadd([1], [2])",
		"operator.is_(None, None)",
	}
	stdlibtest.Same(t, stdlibtest.Names(operator.Module()), "import operator", 0, scripts)
}

func TestOperatorHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(operator.Module()), []stdlibtest.Case{
		{Script: "operator.pow(2, 1 << 40)", Want: "!OverflowError"},
		{Script: "operator.pow(1 << 100, 1 << 62)", Want: "!OverflowError"},
	})
}
