package confine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Prepare makes the plan for a start of a server. The caller removes Plan.Temp after the end of the
// server. The error is an [ErrUnsupported] if the machine is the reason.
func Prepare(s *Settings, at Place) (*Plan, error) {
	if s.Learn {
		return &Plan{Env: at.Env, Trace: s.Trace}, nil
	}
	k := thisKernel()
	lacks := k.lacks(s)
	if len(lacks) > 0 && !s.BestEffort {
		return nil, &UnsupportedError{lacks, k.level()}
	}
	filter, err := s.filter()
	if err != nil {
		return nil, err
	}
	grants, err := s.files(at)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Env: at.Env, Lacks: lacks, Trace: s.Trace}
	if !s.has(ReadOnly) {
		if plan.Temp, err = os.MkdirTemp("", "mcp-metatool-"); err != nil {
			return nil, fmt.Errorf("no folder for the server's temporary files could be made: %w", err)
		}
		real, err := canonical(plan.Temp)
		if err != nil {
			os.RemoveAll(plan.Temp)
			return nil, err
		}
		grants = append(grants, grant{path: real, right: read | write})
		plan.Env = append(slices.Clone(at.Env), "TMPDIR="+plan.Temp)
	}
	profile := &restrict.Profile{Memory: s.Memory, Processes: uint64(s.Processes)}
	if k.root && !k.groups {
		profile.Processes = 0
	}
	if k.filters {
		profile.Filter = filter
	}
	s.rules(profile, k, grants)
	profile.Limits = s.limits()
	plan.Profile = profile.Strings()
	if s.Trace != "" { // the tracer starts package restrict's process
		plan.Profile = nil
		if err := regular.Write(filepath.Join(s.Trace, TraceProfile), []byte(profile.Text()), 0o600); err != nil {
			if plan.Temp != "" {
				os.RemoveAll(plan.Temp)
			}
			return nil, err
		}
	}
	return plan, nil
}

// limits returns the resource limits other than the limits on memory and processes.
func (s *Settings) limits() []restrict.Limit {
	limits := []restrict.Limit{{Resource: unix.RLIMIT_CORE, Value: 0}}
	if s.CPUTime > 0 {
		limits = append(limits, restrict.Limit{Resource: unix.RLIMIT_CPU, Value: uint64(math.Ceil(float64(s.CPUTime) / float64(time.Second)))})
	}
	if s.OpenFiles > 0 {
		limits = append(limits, restrict.Limit{Resource: unix.RLIMIT_NOFILE, Value: uint64(s.OpenFiles)})
	}
	return limits
}
