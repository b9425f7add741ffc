// Package inpython has the modules of the script library that are written in Python. They
// are compiled when a script first uses them, so they cost others nothing but their text.
//
//	inpython.go   the table
//	decimal.py, difflib.py, fractions.py
//	              whole modules
//	extra.py      the parts of collections, functools and statistics in Python
package inpython

import _ "embed" // for the sources

// A Module is a module, or a part of one that is otherwise written in Go. The code is a
// script whose result is a dict of the names.
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
