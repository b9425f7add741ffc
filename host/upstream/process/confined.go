package process

import (
	"log/slog"
	"os"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// plan is how a server is started; without a profile it is not confined.
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
		log.Warn("the server is confined as far as this machine can do it (best_effort)", "missing", strings.Join(made.Lacks, "; "), "machine", confine.Level())
	}
	return plan{*made}, nil
}

// discard removes what was made for a start that has failed.
func (p plan) discard() {
	if p.Temp != "" {
		_ = os.RemoveAll(p.Temp)
	}
}
