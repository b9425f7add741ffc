package servers

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
)

// limitOf returns the time limit of a call. tasks/result has no idle limit, because the call takes
// as long as the task.
func (u *Upstream) limitOf(method string) rpc.Limit {
	limit := rpc.Limit{Idle: u.spec.Timeout, Max: u.spec.MaxTimeout}
	if method == protocol.MethodTasksResult {
		limit.Idle = 0
	}
	return limit
}
