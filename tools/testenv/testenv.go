// Package testenv knows the machine on which tests run: its missing parts, and its speed. Begin
// with [Lacks], [Program], [Port], [Deadline] and [Quiet].
//
// A test that needs a program, a right, or a feature of the kernel is skipped on a machine without
// it, and fails in CI, where skipped tests are not read. Conditions known before, for example the
// operating system, are no matter of this package.
//
// Importing testenv imports package watchdog, which fails tests that hang.
package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// Variable is the name of the environment variable for the parts that the machine of CI cannot
// have, separated by spaces. Tests in need of these parts are skipped in CI, too. .ci/run sets the
// variable, and says why.
const Variable = "METATOOL_TEST_LACKS"

// Lacks ends a test in need of a part that the machine lacks. The parameter what is the part's name
// in Variable, a single word; the other parameters say why, as for fmt.Sprintf.
func Lacks(t testing.TB, what, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") == "true" && !slices.Contains(strings.Fields(os.Getenv(Variable)), what) {
		t.Fatalf("%s (in CI, this test must run, unless %s has the word %q)", why, Variable, what)
	}
	t.Skip(why)
}

// Program returns the path of a program needed by a test.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, name, "there is no %s here", name)
	}
	return path
}

// Deadline returns how long a test waits for an event that must happen: d on an ordinary machine,
// and in proportion longer on a slow or busy machine, at most twenty times. d should be half a
// minute or more: then the machine may become busy later too. In a bubble of synctest, where no
// time passes while code runs, Deadline returns d.
func Deadline(d time.Duration) time.Duration {
	if time.Now().Year() < 2020 { // the clock of a bubble begins with the year 2000
		return d
	}
	return time.Duration(float64(d) * watchdog.Slowness())
}

// Quiet returns d, and marks a time meant to run out: the time of a wait in which nothing may
// happen, or of a call with an end by deadline as the subject of the test. A slow machine makes the
// time longer, and cannot make the test fail. Tests use Quiet for all times shorter than half a
// minute (TestDeadlines in host).
func Quiet(d time.Duration) time.Duration { return d }

// systemPorts is the first port that systems choose for callers without a wish, if the system does
// not tell: the first port of Linux. Other systems begin later.
const systemPorts = 32768

// Port returns a TCP port of 127.0.0.1 without a listener until the test listens: the system does
// not choose the port for connections or for callers that ask for any port, and other callers of
// Port do not get the port, since a UDP socket claims it until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	end, last := systemPorts, 0
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(data), &end, &last)
	}
	begin := max(1024, end-20000)
	if begin >= end { // the system chooses all ports
		begin, end = 1024, systemPorts
	}
	for range 1000 {
		port := begin + rand.IntN(end-begin)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp4", address)
		if err != nil {
			continue
		}
		// A listener would not be closed at once while the test starts a process, which shares the
		// listener until the process executes the program.
		if taken, err := net.DialTimeout("tcp4", address, Quiet(100*time.Millisecond)); err == nil {
			taken.Close()
			claim.Close()
			continue
		}
		t.Cleanup(func() { claim.Close() })
		return port
	}
	t.Fatalf("no port from %d to %d of 127.0.0.1 is free", begin, end-1)
	return 0
}

// Executable returns the path of the program in a package of this module, which tests start in many
// processes: without data for debuggers, the program starts faster than a test binary, and fewer
// bytes are read. The program is built with the tags of the test, but never for the race detector,
// which finds more in tests of a single process, in less time. The build cache of go keeps the
// program, so the program is linked once, and not for every run of the tests. env is the
// environment in which go finds its caches. The error is an exec.ErrNotFound without a go command.
func Executable(pkg string, env []string) (string, error) {
	program, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	// go run passes the path to the program of -exec. go version prints the path, on all systems.
	args := []string{"run", "-buildvcs=false", "-ldflags=-s -w", "-exec", "go version"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "-tags", "-gcflags", "-trimpath":
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	args = append(args, pkg)
	for range 2 { // the first time, go removes the program after the run
		cmd := exec.Command(program, args...)
		var stderr strings.Builder
		cmd.Env, cmd.Stderr = env, &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("go run %s: %w\n%s", pkg, err, &stderr)
		}
		path, _, _ := strings.Cut(string(out), ": go")
		if _, err = os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("go run %s: go does not keep it", pkg)
}
