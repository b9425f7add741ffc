package subreaper

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestProcessesOfRoot checks that root's server, which may have only so many processes, is not
// started if no control group can limit them: the kernel's own limit is not for root.
func TestProcessesOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "root", "for other users, the kernel limits processes")
	}
	profile := restrict.Profile{Processes: 5}
	pid, err := start(Command{Path: "/bin/true", Args: []string{"true"}, Profile: profile.Strings()}, nil)
	var refused refusal
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "its processes cannot be limited") {
		t.Errorf("process %d, %v", pid, err)
	}
	if pid > 0 {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
}
