package route

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// How long a question waits while several clients with the same credentials have calls in flight to
// which the question may belong. Meanwhile most calls end, and an ended call asks nothing.
const (
	// principalWait is for clients with a token. Afterwards the question goes to the newest of
	// their calls: whatever is for one client of a principal, the other clients of the principal
	// may see too (revision 2026-07-28, server/utilities/caching, cacheScope "private").
	principalWait = time.Second
	// anonymousWait is for clients without a token, who may be different persons. The wait is as
	// long as calls cancelled before the question count. Afterwards the question is refused.
	anonymousWait = 5 * time.Second
)

// ErrAnswered is the error of Origin.Ask if the call for which the client is asked has been
// answered before the client answers.
var ErrAnswered = errors.New("the call has been answered meanwhile")

// addressee returns the origin to ask: the owner of the request, or the only session.
func (p Peer) addressee(ctx context.Context, m wire.Inbound) (Origin, *wire.RPCError) {
	if t := p.bridgedTask(m); t != nil {
		return t, nil
	}
	calls := origins(m)
	if s := p.taskOwner(m); s != nil {
		return newestOf(calls, s), nil
	}
	switch {
	case len(calls) == 0:
		return p.withoutCall(m)
	case areOfSessions(calls):
		return nil, p.undecided(m.Method)
	case hasManyClients(calls[0].Session()):
		return p.amongClients(ctx, m, calls)
	}
	return newest(likely(calls), takes(m)), nil
}

// takes returns a function reporting whether the client can be asked a request for a call, and
// supports the request.
func takes(m wire.Inbound) func(Origin) bool {
	return func(o Origin) bool { return canBeAsked(o) && permits(o.Client(), m) == nil }
}

// withoutCall returns the addressee of a request while no call is in flight.
func (p Peer) withoutCall(m wire.Inbound) (Origin, *wire.RPCError) {
	if p.conn.own != nil {
		return p.conn.own, nil
	}
	switch all := p.router.everyone(p.conn); len(all) {
	case 1:
		return all[0], nil
	case 0:
		return nil, wire.Errorf(wire.CodeInternal, "%s refused: no client is connected", m.Method)
	}
	return nil, p.undecided(m.Method)
}

// amongClients returns the addressee of a request that belongs to one of several calls with the
// same credentials. The function waits until all calls but the last have ended, though not long.
func (p Peer) amongClients(ctx context.Context, m wire.Inbound, calls []Origin) (Origin, *wire.RPCError) {
	decided := func(calls []Origin) bool { return len(calls) == 0 || areOfClient(calls) }
	wait := principalWait
	anonymous := isAnonymous(calls[0].Session())
	if anonymous {
		wait = anonymousWait
	}
	if m.Await != nil && !decided(calls) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		calls = originsOf(m.Await(ctx, func(owners []any) bool { return decided(originsOf(owners)) }))
	}
	switch {
	case len(calls) == 0:
		return nil, wire.Errorf(wire.CodeInternal, "%s refused: the calls that it may be for have ended", m.Method)
	case anonymous && !decided(calls):
		return nil, wire.Errorf(wire.CodeInternal, `%s refused: several clients without a token use upstream %q, and which one this is for is not known `+
			`(give each client a token)`, m.Method, p.conn.server)
	}
	return newest(likely(calls), takes(m)), nil
}

func (p Peer) undecided(method string) *wire.RPCError {
	return wire.Errorf(wire.CodeInternal, `%s refused: several clients share upstream %q, and which one this is for is not known `+
		`(set isolation = "session" for the upstream)`, method, p.conn.server)
}

// ErrNotListening is the error of Origin.Ask if the client has no open stream on which a request
// could reach the client.
var ErrNotListening = errors.New("the client is not listening (it has no GET stream open)")

// ErrAsksLater is the error of an origin that has ended to ask the client by a result. The asking
// call is made again when the client has answered. If the question belongs to another call, this
// other call is still in flight.
var ErrAsksLater = errors.New("the run ended to ask the client something; it continues when the client answers")

// withoutRequest returns a request without the calls for the request of o. ok is false if no call
// is left to which the request can belong.
func withoutRequest(ctx context.Context, m wire.Inbound, o Origin) (other wire.Inbound, ok bool) {
	if m.Await == nil || ctx.Err() != nil {
		return m, false
	}
	await := m.Await
	others := func(owners []any) []any {
		return slices.DeleteFunc(slices.Clone(owners), func(owner any) bool {
			call, isOrigin := owner.(Origin)
			return !isOrigin || requestOf(call) == requestOf(o) || standingOf(call) == Closed
		})
	}
	m.Await = func(ctx context.Context, decided func([]any) bool) []any {
		return others(await(ctx, func(owners []any) bool { return decided(others(owners)) }))
	}
	left := m.Await(ctx, func([]any) bool { return true })
	m.Owners = func() []any { return left }
	return m, len(left) > 0
}

// withoutAnswered returns a request without the call for which a client was asked, if this call has
// been answered meanwhile; then the request belongs to another call. ok is false otherwise.
func withoutAnswered(ctx context.Context, m wire.Inbound, asked Origin) (other wire.Inbound, ok bool) {
	if m.Await == nil || ctx.Err() != nil {
		return m, false
	}
	left := m.Await(ctx, func([]any) bool { return true })
	for _, call := range originsOf(left) {
		if requestOf(call) == requestOf(asked) {
			return m, false
		}
	}
	m.Owners = func() []any { return left }
	return m, len(left) > 0
}
