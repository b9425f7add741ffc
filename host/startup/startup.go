// Package startup is what happens before other packages are initialized.
//
// It keeps the garbage collector off meanwhile. They allocate more than the collector lets
// pass without a run, but keep nearly all of it; and one of them (prometheus) reads
// statistics of memory, for which it would wait until that run is over. Commands that only
// print a text end before the collector is needed; this is a tenth of their time.
//
// The package imports as little as possible, so that it is initialized before most others.
package startup

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

var percent = debug.SetGCPercent(-1)

// Done switches the collector on, as GOGC says. main calls it before anything
// that may allocate much.
func Done() { debug.SetGCPercent(percent) }

// release is the version of a release build:
// -ldflags "-X github.com/mcp-metatool/mcp-metatool/host/startup.release=v1.2.3".
var release string

// Version returns the version of this build, "(devel)" if it has none.
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// VersionText returns the line that the verb version prints.
func VersionText() string {
	return fmt.Sprintf("mcp-metatool %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// A process that only prints the version, such as that of a package manager or of a host
// that looks for the program, needs nothing else: it never gets to main. It takes a fifth
// of the time and of the memory.
func init() {
	if len(os.Args) != 2 || os.Args[1] != "version" && os.Args[1] != "--version" {
		return
	}
	if _, err := os.Stdout.WriteString(VersionText()); err != nil {
		fmt.Fprintln(os.Stderr, "mcp-metatool:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
