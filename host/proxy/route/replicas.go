package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// In a fleet, ids of tasks and states name the replica that has the task or run, or knows most
// about it. Front ends pass requests about the task or run on to this replica. So requests that
// arrive here are about tasks and runs of this replica, of any replica, or of a replica that cannot
// be reached.

// Replicas are the other replicas of a fleet.
type Replicas interface {
	// Shares reports whether all replicas reach the same process of a server, so that any replica
	// can ask the process about tasks.
	Shares(server string) bool
	// Lost describes another replica that cannot be asked, "replica ID, which ...", and reports
	// whether the replica has ended for good.
	Lost(replica string) (description string, ended bool)
	// WatchTask calls changed with the params of each notification about a task of another replica,
	// in the form for the client of s, until stop is called. ended is closed when no more
	// notifications will come. ok is false if the replica cannot be reached or does not announce
	// changes of the task, or if ctx ends first.
	WatchTask(ctx context.Context, replica string, s Session, id string, changed func(task []byte)) (stop func(), ended <-chan struct{}, ok bool)
}

// TaskBinding returns the binding of the id of a task to a principal.
func TaskBinding(principal string) requeststate.Binding {
	return requeststate.Binding{Principal: principal, Method: protocol.ExtensionTasks}
}

// lost returns the error for a task or run of a replica that cannot be asked.
func (r *Router) lost(method, replica, what string) wire.Reply {
	if r.Replicas == nil {
		return fail(wire.CodeInvalidParams, "%s: another process has %s", method, what)
	}
	description, ended := r.Replicas.Lost(replica)
	if ended {
		return fail(wire.CodeInvalidParams, "%s: %s was in %s: it is lost", method, what, description)
	}
	return fail(wire.CodeInternal, "%s: %s is in %s (try again later; it is lost if that replica has ended)", method, what, description)
}

// describe describes the other replica home; "" for none.
func (r *Router) describe(home string) string {
	if home == "" || r.Replicas == nil {
		return ""
	}
	description, _ := r.Replicas.Lost(home)
	return description
}

// shares reports whether all replicas reach the same process of a server.
func (r *Router) shares(server string) bool { return r.Replicas != nil && r.Replicas.Shares(server) }
