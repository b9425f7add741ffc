package streamable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// principal has the requests of the stateless era of all clients with the same token, in place of
// sessions. Each token has at most one principal, so the number of principals needs no limit.
type principal struct {
	handler *Handler
	token   bearer.Digest
	mcp     *stateless.Principal
	conn    *rpc.Conn       // each HTTP request is a separate stream
	memory  *budget.Account // messages that the clients have not read
	ended   chan struct{}   // closed when nothing is left of the principal

	requests  int                  // HTTP requests being served; guarded by Handler.mu
	from      map[netip.Prefix]int // the same, by address; guarded by Handler.mu
	idleSince time.Time            // when the last of them ended; guarded by Handler.mu
	serving   sync.WaitGroup       // HTTP requests that the end waits for

	mu   sync.Mutex // a leaf
	open map[*response]bool
}

// maxRequests bounds the requests of a principal in flight, including subscriptions.
const maxRequests = 4096

// principalOf returns the principal of a token, and begins the principal if necessary. The
// principal is not idle until the caller calls leavePrincipal. A single address cannot take all
// requests of a principal, since all clients without a token share a principal.
func (h *Handler) principalOf(token bearer.Digest, address netip.Prefix) (*principal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed || h.ctx.Err() != nil:
		return nil, errClosing
	case !h.policy.Load().accepts(token): // since the request was accepted
		return nil, errRevoked
	}
	p := h.principals[token]
	if p == nil {
		p = newPrincipal(h, token)
		h.principals[token] = p
		h.workers.Go(p.run)
	}
	if n := p.from[address]; n >= shareOfAddress(address, 0, maxRequests) {
		return nil, &quotaError{fmt.Sprintf("this address has %d requests in progress (try again later)", n)}
	}
	p.requests++
	p.from[address]++
	p.serving.Add(1) // under the lock: none is added once run waits
	return p, nil
}

func (h *Handler) leavePrincipal(p *principal, address netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.requests--
	if p.from[address]--; p.from[address] == 0 {
		delete(p.from, address)
	}
	p.idleSince = time.Now()
	p.serving.Done()
}

func newPrincipal(h *Handler, token bearer.Digest) *principal {
	p := &principal{handler: h, token: token, idleSince: time.Now(), from: map[netip.Prefix]int{}, ended: make(chan struct{}), open: map[*response]bool{}}
	opts := h.opts.Session
	opts.Rights = func() *bearer.Rights { return h.policy.Load().rights(token) }
	opts.TokenName = func() string { return h.policy.Load().name(token) }
	opts.Principal = token.Principal()
	of := opts.PrincipalOptions()
	of.ManyClients = true
	p.mcp = stateless.New(h.ctx, of)
	p.memory = opts.Budget.OpenUnread(route.BudgetKey(p.mcp), 0)
	p.conn = rpc.New(h.ctx, rpc.Options{
		Peer: rpc.Client, Main: noStream{}, Handler: p, SharedIDs: true,
		MaxRequests: maxRequests, KeepWorkers: opts.KeepWorkers, Log: opts.Log,
	})
	return p
}

// Request implements rpc.Handler.
func (p *principal) Request(r *rpc.Request) {
	if out, ok := r.Stream().(*response); ok {
		p.mcp.Serve(r, out.envelope)
		return
	}
	// The client has disconnected already.
	r.Reply(wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%v", clients.ErrClientGone).Raw()})
}

// Notification implements rpc.Handler. Over HTTP this era has no notifications of clients.
func (p *principal) Notification(wire.Inbound) {}

// serve passes a request on and returns the stream of the answer.
func (p *principal) serve(msg wire.Message, out *response) {
	p.mu.Lock()
	p.open[out] = true
	p.mu.Unlock()
	p.conn.ReceiveMessage(msg, nil, nil, out)
}

// served is called when the answer has been written, or cannot be.
func (p *principal) served(out *response, err error) {
	if err != nil {
		p.conn.Abandon(out, errors.Join(clients.ErrClientGone, err))
	}
	out.release()
	out.sink.finish()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, out)
}

// run waits for the end of the principal and releases the principal's resources.
func (p *principal) run() {
	h := p.handler
	<-p.conn.Done()
	h.mu.Lock()
	if h.principals[p.token] == p {
		delete(h.principals, p.token)
	}
	h.mu.Unlock()
	p.mcp.End(p.conn.Err())
	ok := p.conn.CloseWithin(closeTimeout, wire.ErrClosed) // requests in flight may still be answered
	ok = p.mcp.Close(closeTimeout) && ok
	for _, out := range p.responses() {
		out.Finish(rpc.Frame{}) // most are finished already
	}
	if !p.awaitRequests() || !ok {
		h.log().Warn("requests of a client did not end completely", "principal", p.mcp.ID())
	}
	p.memory.Close()
	close(p.ended)
}

// awaitRequests is session.awaitRequests.
func (p *principal) awaitRequests() bool {
	served := make(chan struct{})
	go func() {
		p.serving.Wait()
		close(served)
	}()
	if closedWithin(served, closeTimeout) {
		return true
	}
	for _, out := range p.responses() {
		out.sink.abort()
	}
	return closedWithin(served, closeTimeout)
}

// responses returns the responses being written.
func (p *principal) responses() []*response {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.open))
}

// removeIdlePrincipals removes and returns the principals that have been idle for too long. The
// caller holds h.mu.
func (h *Handler) removeIdlePrincipals(now time.Time) (idle []*principal) {
	for token, p := range h.principals {
		if p.requests == 0 && !p.mcp.Busy() && now.Sub(p.idleSince) > h.opts.SessionTTL {
			delete(h.principals, token)
			idle = append(idle, p)
		}
	}
	return idle
}

// noStream is the main stream of a principal: this era has no messages outside of
// requests.
type noStream struct{}

// TrySend implements rpc.Stream.
func (noStream) TrySend(f rpc.Frame) bool {
	f.Done(rpc.Unsent, clients.ErrNotListening)
	return true
}

// Send implements rpc.Stream.
func (n noStream) Send(_ context.Context, f rpc.Frame) error { return n.Push(f) }

// Push implements rpc.Stream.
func (n noStream) Push(f rpc.Frame) error {
	n.TrySend(f)
	return nil
}

// Withdraw implements rpc.Stream.
func (noStream) Withdraw(int64) bool { return true }

// Finish implements rpc.Stream.
func (noStream) Finish(f rpc.Frame) { f.Done(rpc.Unsent, nil) }
