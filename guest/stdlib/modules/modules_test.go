// Tests of the modules that scripts import, against Python's. They are together here, because each
// test binary is linked, and each asks for the version of Python, once.
package modules_test

import "flag"

var long = flag.Bool("long", false, "compare five times as many random scripts with Python")

// rounds returns how many random scripts are compared of those of the long form. A seed makes them,
// so that they are always the first ones.
func rounds(all int) int {
	if *long {
		return all
	}
	return all / 5
}
