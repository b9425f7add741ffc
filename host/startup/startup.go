// Package startup keeps the garbage collector off while packages are initialized. They
// allocate more than the collector lets pass without a run, but keep nearly all of it; and
// one of them (prometheus) reads statistics of memory, for which it would wait until that
// run is over. Commands that only print a text end before the collector is needed; this is
// a tenth of their time.
//
// The package imports as little as possible, so that it is initialized before most others.
package startup

import "runtime/debug"

var percent = debug.SetGCPercent(-1)

// Done switches the collector on, as GOGC says. main calls it before anything
// that may allocate much.
func Done() { debug.SetGCPercent(percent) }
