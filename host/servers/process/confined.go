package process

import (
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
)

// ownBinary is the path of our own program, which works even if the file has been replaced, for
// Linux. Tests set another path.
var ownBinary = "/proc/self/exe"

// plan is the plan for starting a server; without a profile the server is not confined.
type plan struct {
	confine.Plan
}

// confined makes the plan for a start.
func (c *Command) confined(path string, env []string, log *slog.Logger) (plan, error) {
	if c.Sandbox == nil {
		return plan{confine.Plan{Env: env}}, nil
	}
	made, err := confine.Prepare(c.Sandbox, confine.Place{Path: path, Dir: c.Dir, Env: env, Own: c.Own})
	if err != nil {
		return plan{}, err
	}
	if len(made.Lacks) > 0 {
		log.Warn("the server is confined as far as this machine can (best_effort)", "missing", strings.Join(made.Lacks, "; "), "machine", confine.Level())
	}
	return plan{*made}, nil
}

// wrap returns the program and the arguments to start: the server's, or the tracer with the
// server's.
func (p plan) wrap(path string, args []string) (string, []string) {
	if p.Trace == "" {
		return path, args
	}
	return ownBinary, append([]string{trace.Name, p.Trace, path}, args...)
}

// discard removes the files of a failed start.
func (p plan) discard() {
	if p.Temp != "" {
		_ = os.RemoveAll(p.Temp)
	}
}

// Place returns where a command is started, for package confine.
func Place(c Command) (confine.Place, error) {
	env := environ(os.Environ(), c.Env, runtime.GOOS == "windows")
	path, err := findCommand(c.Name, c.Dir, env)
	return confine.Place{Path: path, Dir: c.Dir, Env: env, Own: c.Own}, err
}
