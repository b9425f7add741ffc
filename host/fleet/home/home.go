// Package home finds the replica of a fleet that has what a request is about, and reaches it.
//
//	home.go   Finder: which replica that is, and why it cannot be asked
//	watch.go  changes of a task that another replica has
//
// Ids of tasks and the states that clients return with their answers name that replica (package
// requeststate).
package home

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Options of a Finder. All are needed.
type Options struct {
	Fleet  *fleet.Fleet
	Link   *peer.Link
	Sealer *requeststate.Sealer
	// Tokens returns the tokens that are accepted now.
	Tokens func() []bearer.Token
	// Shares is that of route.Replicas.
	Shares func(server string) bool
	// Budget has the memory of what other replicas announce; nil: it is not counted.
	Budget *budget.Budget
	Log    *slog.Logger
}

// Finder finds other replicas. It is safe for concurrent use.
type Finder struct {
	opts     Options
	ctx      context.Context // of watching
	cancel   context.CancelFunc
	watching sync.WaitGroup
}

var _ route.Replicas = (*Finder)(nil)

// New makes a Finder. The caller must Close it.
func New(opts Options) *Finder {
	f := &Finder{opts: opts}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close ends watching tasks, and waits for that. A nil Finder watches none.
func (f *Finder) Close() {
	if f == nil {
		return
	}
	f.cancel()
	f.watching.Wait()
}

// Home returns the other replica that has what a request of a principal is about; "" if this one
// can answer it, or nobody. params are raw.
func (f *Finder) Home(principal, method string, params []byte) string {
	binding, member := requeststate.Binding{Principal: principal, Method: method, Params: params}, "requestState"
	switch {
	case protocol.IsTaskRequest(method):
		binding, member = route.TaskBinding(principal), "taskId"
	case !stateless.MayAsk(method):
		return ""
	}
	state, ok := wire.GetString(params, member)
	if !ok {
		return ""
	}
	return f.opts.Sealer.Home(binding, state)
}

// Forward passes a request on; see [peer.Link.Forward].
func (f *Finder) Forward(w http.ResponseWriter, r *http.Request, p peer.Passage) error {
	return f.opts.Link.Forward(w, r, p)
}

// Shares implements route.Replicas.
func (f *Finder) Shares(server string) bool { return f.opts.Shares(server) }

// Lost implements route.Replicas.
func (f *Finder) Lost(id string) (description string, ended bool) {
	r := f.opts.Fleet.Replica(id)
	name := "replica " + id
	if r.Name != "" {
		name += " on " + r.Name
	}
	switch r.State {
	case fleet.Gone:
		if f.opts.Fleet.Ended(id) {
			return name + ", which has ended", true
		}
		return name + ", of which the store of the fleet knows nothing yet", false
	case fleet.Silent:
		return fmt.Sprintf("%s, which has not been heard of for %v", name, r.Renewed.Round(time.Second)), false
	}
	return name + ", which cannot be reached from this one", false
}

// token returns that of a principal; ok is false if there is none any more.
func (f *Finder) token(principal string) (token bearer.Digest, ok bool) {
	if principal == "" {
		return token, true
	}
	all := f.opts.Tokens()
	i := slices.IndexFunc(all, func(t bearer.Token) bool { return t.Digest.Principal() == principal })
	if i < 0 {
		return token, false
	}
	return all[i].Digest, true
}
