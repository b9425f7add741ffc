package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// In a fleet, ids of tasks and states name the replica that has what they are about, or knows it
// best. Front ends pass requests about it on to that replica. So what comes here is about things
// of this replica, of any, or of one that cannot be reached.

// Replicas are the other replicas of a fleet.
type Replicas interface {
	// Shares reports whether all replicas reach the same process of a server, so that any of
	// them can ask it about its tasks.
	Shares(server string) bool
	// Lost describes another replica that cannot be asked, "replica ID, which ...", and says
	// whether it has ended for good.
	Lost(replica string) (description string, ended bool)
	// WatchTask calls changed with the params of each notification about a task that another
	// replica has, as the client of s gets them, until stop is called. ended is closed when
	// there will be none any more. ok is false if that replica cannot be reached or does not
	// announce changes of that task, or if ctx ends first.
	WatchTask(ctx context.Context, replica string, s Session, id string, changed func(task []byte)) (stop func(), ended <-chan struct{}, ok bool)
}

// TaskBinding returns what the id of a task of a principal belongs to.
func TaskBinding(principal string) requeststate.Binding {
	return requeststate.Binding{Principal: principal, Method: protocol.ExtensionTasks}
}

// lost returns the error for something that a replica has that cannot be asked.
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

// describe describes the other replica that has something; "" if there is none.
func (r *Router) describe(home string) string {
	if home == "" || r.Replicas == nil {
		return ""
	}
	description, _ := r.Replicas.Lost(home)
	return description
}

// shares reports whether all replicas reach the same process of a server.
func (r *Router) shares(server string) bool { return r.Replicas != nil && r.Replicas.Shares(server) }
