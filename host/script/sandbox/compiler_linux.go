package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Compiling the guest takes some hundred megabytes, which a process gives back late or never. So
// another process compiles the guest: this program's binary, started again under the name
// compilerName with the directory of the options as the argument. Like the process of package
// subreaper, the compiler never gets to main.
const compilerName = "mcp-metatool-compiler"

func init() {
	if len(os.Args) == 2 && os.Args[0] == compilerName {
		os.Exit(compileForOther(os.Args[1]))
	}
}

// compileForOther is the whole program of the compiling process, and returns the exit status.
func compileForOther(dir string) int {
	guest, err := unpack()
	if err == nil {
		var cache *compileCache
		if cache, _, err = openCache(dir, embeddedDigest()); err == nil {
			err = cache.fill(context.Background(), guest)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// compilerEnv is the environment of the process: less memory is worth some time.
var compilerEnv = []string{"GOGC=30", "GOTRACEBACK=none"}

// fillElsewhere fills the cache with the embedded guest, by another process.
func (c *compileCache) fillElsewhere(ctx context.Context, opts Options) error {
	if opts.Guest != nil {
		return errors.ErrUnsupported
	}
	// The kernel sends the parent-death signal when the thread ends that has started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", opts.CacheDir)
	cmd.Args[0] = compilerName
	cmd.Env = compilerEnv
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling in another process: %w: %s", err, display.Excerpt(stderr.String(), 500))
	}
	return nil
}
