package servers

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
)

// limitOf returns how long a call of a method may take. tasks/result has no idle limit,
// because it takes as long as the task does.
func (u *Upstream) limitOf(method string) rpc.Limit {
	limit := rpc.Limit{Idle: u.spec.Timeout, Max: u.spec.MaxTimeout}
	if method == protocol.MethodTasksResult {
		limit.Idle = 0
	}
	return limit
}
