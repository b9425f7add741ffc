// Package inpython has the modules of the script library in Python: decimal, difflib and fractions,
// and parts of collections, functools and statistics (extra.py). Begin with [Module]. Modules are
// compiled at their first use by a script, so they cost other scripts only their text.
package inpython

import _ "embed" // for the sources

// A Module is a module, or the Python part of a module in Go. The code is a script with a dict of
// the names as the result.
type Module struct {
	Name  string
	Names []string
	Code  string
}

//go:embed fractions.py
var fractions string

//go:embed decimal.py
var decimal string

//go:embed difflib.py
var difflib string

//go:embed extra.py
var extra string

// All are the modules in Python.
var All = []Module{
	{"collections", []string{"ChainMap"}, extra},
	{"decimal", []string{
		"BasicContext", "Context", "Decimal", "DecimalException", "DefaultContext", "DivisionByZero", "ExtendedContext", "InvalidOperation",
		"ROUND_CEILING", "ROUND_DOWN", "ROUND_FLOOR", "ROUND_HALF_DOWN", "ROUND_HALF_EVEN", "ROUND_HALF_UP", "ROUND_UP", "ROUND_05UP",
		"getcontext", "setcontext",
	}, decimal},
	{"difflib", []string{"SequenceMatcher", "context_diff", "get_close_matches", "unified_diff"}, difflib},
	{"fractions", []string{"Fraction"}, fractions},
	{"functools", []string{"singledispatch", "total_ordering"}, extra},
	{"statistics", []string{"median_grouped"}, extra},
}
