package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
)

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
