// Command clockahead runs go test with a clock that is ahead; scripts/test-later runs clockahead.
// For the tests and the programs that they build, the current time and the times of files are later
// by the given number of days, or by several, one after the other. The machine's clock does not
// change.
//
// The standard library is compiled with edited copies of three files (go help build, -overlay). If
// a release of Go has changed the places to edit, clockahead fails.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/scripts/overlay"
)

// secondsVar is the environment variable with the number of seconds by which the clock is ahead,
// for the tests and the processes that they start.
const secondsVar = "CLOCK_AHEAD_SECONDS"

var edits = []overlay.Edit{
	{File: "time/time.go", Old: "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n", New: "	sec, nsec, mono := runtimeNow()\n	if !runtimeIsBubbled() {\n		sec += ahead\n	}\n	if mono == 0 {\n"},
	{File: "time/time.go", Old: "func Now() Time {\n", New: aheadSource + "\nfunc Now() Time {\n"},
	{File: "time/time.go", Old: "import (\n", New: "import (\n	\"syscall\"\n"},
	{File: "os/stat_linux.go", Old: "time.Unix(fs.sys.Mtim.Unix())", New: "time.Unix(fs.sys.Mtim.Unix()).Add(time.ClockAhead())"},
	{File: "os/file_posix.go", Old: "NsecToTimespec(t.UnixNano())", New: "NsecToTimespec(t.Add(-time.ClockAhead()).UnixNano())"},
}

const aheadSource = `
var ahead = secondsAhead()

func secondsAhead() (n int64) {
	text, _ := syscall.Getenv("` + secondsVar + `")
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}

// ClockAhead is how far Now is ahead of the system's clock.
func ClockAhead() Duration { return Duration(ahead) * Second }
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "test-later:", err)
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func run(args []string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("runs on Linux only, not on %s", runtime.GOOS)
	}
	if len(args) > 2 && args[0] == atArgument {
		return runAt(args[1], args[2:])
	}
	if len(args) < 2 {
		return errors.New("usage: test-later DAYS[,DAYS...] [FLAGS] PACKAGES (as for go test)")
	}
	if _, err := parseDays(args[0]); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "test-later-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := overlay.Write(dir, "overlay", edits, nil)
	if err != nil {
		return err
	}
	// Programs built by tests use this clock too.
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -overlay=" + file)
	// go test must not use cached results: the cache ignores this clock.
	cmd := exec.Command("go", append([]string{"test", "-count", "1", "-exec", fmt.Sprintf("%q %s %s", self, atArgument, args[0])}, args[1:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	return cmd.Run()
}

// atArgument is the first argument of the process that go test starts in place of a test binary;
// the list of days and the command follow.
const atArgument = "-at"

// runAt runs the tests of a package, once for each number of days.
func runAt(list string, command []string) error {
	all, err := parseDays(list)
	if err != nil {
		return err
	}
	var failed error
	for _, days := range all {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), secondsVar+"="+strconv.FormatUint(days*24*60*60, 10))
		if err := cmd.Run(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%d days ahead: %w", days, err))
		}
	}
	return failed
}

// parseDays reads comma-separated numbers of days.
func parseDays(list string) (all []uint64, err error) {
	for text := range strings.SplitSeq(list, ",") {
		days, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number of days", text)
		}
		all = append(all, days)
	}
	return all, nil
}
