// Package profile names the functions of the guest in which scripts spend their time. The build
// gives only these the faster form (pass Structure of guest/rewrite), which doubles the size of a
// function. Without the list, the guest would be half as large again, and so would the compile time
// and the native code loaded at each start.
//
// scripts/profile-guest measures hot.txt. A function missing from the list works all the same, only
// slower.
package profile

import (
	_ "embed" // for hot.txt
	"strings"
)

//go:embed hot.txt
var text string

var names = func() map[string]bool {
	all := map[string]bool{}
	for name := range strings.Lines(text) {
		all[strings.TrimSpace(name)] = true
	}
	return all
}()

// Hot reports whether scripts spend time in a function, by the linker's name in the section "name".
func Hot(name string) bool { return names[name] }

// Names returns the number of functions in the list.
func Names() int { return len(names) }
