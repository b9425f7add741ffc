package route

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// Gate decides which requests of clients and scripts may be made. A Gate must be safe for
// concurrent use.
type Gate interface {
	// Active reports whether the Gate has anything to decide. Active is called before each request,
	// and again before the request is written. If the result is false, everything is permitted.
	Active() bool
	// Decide decides about a request. Decide does not block.
	Decide(r policy.Request) policy.Decision
	// Approve asks a person whether a request may be made, for the action policy.Ask, and waits for
	// the answer. The error is nil if the request is allowed. Other errors than the cause of ctx
	// are refusals. The Approval is for the record, in each case.
	Approve(ctx context.Context, a Asking) (policy.Approval, error)
}

// Asking is a request that needs the approval of a person.
type Asking struct {
	Origin   Origin // of the request; nil without a client
	Request  policy.Request
	Decision policy.Decision
	// Progress tells the caller in a sentence the reason of the wait. Progress is nil if the caller
	// does not want progress.
	Progress func(message string)
}

// gated is a request that the rights of the client permit or not, and about which the Gate decides,
// if set. A nil *gated permits everything.
type gated struct {
	router     *Router
	origin     Origin        // of the request; nil for none
	definition func() []byte // the current definition; nil: none
	version    func() string // the current policy.Request.Version; nil: none

	mu       sync.Mutex // guards the fields below; held while the Gate decides
	request  policy.Request
	decision policy.Decision  // the zero value as long as the Gate is not active
	approval *policy.Approval // nil: no person was asked
	asked    policy.Decision  // about which a person has decided
}

// gates reports whether the Gate has anything to decide.
func (r *Router) gates() bool { return r.Gate != nil && r.Gate.Active() }

// decide makes the preliminary decision about a request of a client or script. o is the origin of
// the request, nil for none, and completes request.Caller. If the Gate is not active, the decision
// is made when the request is written, should the Gate be active by then.
func (r *Router) decide(o Origin, request policy.Request, definition func() []byte) *gated {
	g := &gated{router: r, origin: o, request: request, definition: definition}
	if r.gates() {
		g.decideAgain()
	}
	return g
}

// decideAgain decides for the current definition. The caller holds g.mu, or is the only user of g.
func (g *gated) decideAgain() {
	g.router.identify(g.origin, &g.request.Caller) // a token may have been withdrawn
	if g.definition != nil {
		now := g.definition()
		if g.request.Approved && !bytes.Equal(now, g.request.Definition) {
			g.request.Approved = false // the allowed tool is another tool now
		}
		g.request.Definition = now
	}
	if g.version != nil {
		now := g.version()
		if now != g.request.Version {
			g.request.Approved = false
		}
		g.request.Version = now
	}
	g.decision = g.router.Gate.Decide(g.request)
	before := g.decision
	g.request.Before = &before
	g.decision.Approval = g.approval
}

// pass waits for the approval of a person if the decision is to ask for approval. The error is a
// *wire.DeniedError if the request may not be made, or the cause of ctx.
func (g *gated) pass(ctx context.Context, o Origin, w *waiter) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	request, decision := g.request, g.decision
	g.mu.Unlock()
	if err := g.router.permitted(sessionOf(g.origin), &request); err != nil {
		return &wire.DeniedError{Err: err}
	}
	if decision.Action != policy.Ask || request.Approved {
		return g.refusal(decision, request.Approved)
	}
	if w.pause != nil {
		defer w.pause()()
	}
	approval, err := g.router.Gate.Approve(ctx, Asking{Origin: o, Request: request, Decision: decision, Progress: w.tell()})
	approval.Allowed = err == nil
	g.mu.Lock()
	g.approval = &approval
	g.decision.Approval = g.approval
	g.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return err
		}
		return &wire.DeniedError{Err: err}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.request.Approved, g.asked = true, decision
	return nil
}

// refusal returns the error for a request that may not be made, nil for a permitted request.
func (g *gated) refusal(d policy.Decision, approved bool) error {
	if d.Allowed() || d.Action == policy.Ask && approved && (g.asked.Action == "" || g.asked.Rule == d.Rule) {
		return nil // for another rule, the person would have to be asked again
	}
	return &wire.DeniedError{Err: &policy.DeniedError{Target: g.request.Target(), Decision: d}}
}

// Permitted implements wire.Permit: the request is written now.
func (g *gated) Permitted() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.router.permitted(sessionOf(g.origin), &g.request); err != nil || !g.router.gates() {
		return err
	}
	g.request.Commit = true
	g.decideAgain()
	err := g.refusal(g.decision, g.request.Approved)
	var denied *wire.DeniedError
	if errors.As(err, &denied) {
		return denied.Err // the connection wraps the error
	}
	return err
}

// lasts reports whether policy still permits an earlier permitted request, such as a subscription.
// The request is not counted again, and no person is asked.
func (g *gated) lasts() bool {
	if g == nil || !g.router.gates() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.request.Commit = false
	g.decideAgain()
	return g.refusal(g.decision, g.request.Approved) == nil
}

// decided returns the last decision, the zero Decision without a Gate.
func (g *gated) decided() policy.Decision {
	if g == nil {
		return policy.Decision{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decision
}

// identify sets the members of a caller from an origin; a nil origin changes nothing.
func (r *Router) identify(o Origin, c *policy.Caller) {
	if o == nil {
		return
	}
	s := o.Session()
	if c.Session == "" {
		c.Session, c.Principal = s.ID(), s.Principal()
		r.with(s, func(of *client) { c.SessionCalls = &of.called })
	}
	if name := s.TokenName(); name != "" {
		c.Client, c.Token = name, true
	} else if c.Principal == "" { // a token without a name belongs to no user, whatever the client claims
		info, _ := wire.Get(o.Client(), "clientInfo")
		c.Client, _ = wire.GetString(info, "name")
	} else {
		c.Client, c.Token = "", false
	}
}

// passOwn decides about a call of our own tools, and waits until the call may be made.
func (r *Router) passOwn(ctx context.Context, o Origin, request policy.Request, version func() string, w *waiter) (*gated, error) {
	if version != nil && r.gates() {
		request.Version = version()
	}
	g := r.decide(o, request, nil)
	g.version = version
	if err := g.pass(ctx, o, w); err != nil {
		return g, err
	}
	if err := g.Permitted(); err != nil {
		return g, &wire.DeniedError{Err: err}
	}
	return g, nil
}

// Confirm asks a person whether a script may make a call that may have been made before, and waits
// for the answer. rule identifies the question, and reason explains the question. The error is the
// reason why the call may not be made, or the cause of ctx.
func (r *Router) Confirm(ctx context.Context, o Origin, call ScriptCall, rule, reason string) error {
	if r.Gate == nil {
		return errors.New("nobody can be asked")
	}
	request := policy.Request{
		Kind: policy.KindTool, Server: call.Server, Name: call.Tool, Arguments: argumentsOf(call.Params),
		Definition: r.Catalog.Definition(call.Server, call.Tool), Caller: call.caller(),
	}
	r.identify(o, &request.Caller)
	if call.Pause != nil {
		defer call.Pause()()
	}
	w := &waiter{progress: call.Progress}
	_, err := r.Gate.Approve(ctx, Asking{
		Origin: o, Request: request, Decision: policy.Decision{Action: policy.Ask, Rule: rule, Reason: reason}, Progress: w.tell(),
	})
	return err
}

// passTool decides about a client's call of a built-in or saved tool.
func (r *Router) passTool(ctx context.Context, call Call, entry catalog.Entry) (*gated, error) {
	if entry.Gated || !r.gates() && !RightsOf(sessionOf(call.Origin)).Narrows() {
		return nil, nil
	}
	var version func() string
	if entry.Kind == catalog.Composite && r.Version != nil {
		version = func() string { return r.Version(sessionOf(call.Origin), entry.Name) }
	}
	return r.passOwn(ctx, call.Origin, policy.Request{
		Kind: policy.KindTool, Server: ownServer(entry), Name: entry.Name, Arguments: argumentsOf(call.Params),
		Definition: entry.Definition,
		Approved:   call.Resume != nil, // without approval, the run would not have begun; the state of the request is sealed
	}, version, &waiter{progress: call.Progress})
}

// permittedVersion returns the permitted policy.Request.Version, "" if the version does not matter.
func (g *gated) permittedVersion() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.request.Version
}

// ownServer returns the name in rules for the server of our own tools.
func ownServer(entry catalog.Entry) string {
	if entry.Kind == catalog.Builtin {
		return policy.BuiltinTools
	}
	return policy.SavedTools
}

// observe reports a request of a client, other than a call of an upstream's tool, and the reply to
// the observer, if a person was asked about the request or the request was denied.
func (g *gated) observe(ctx context.Context, call Call, start time.Time, reply wire.Reply) {
	if g == nil || g.decided().Allowed() || g.router.Observer == nil || !g.router.Observer.Observes() {
		return
	}
	g.mu.Lock()
	request, decision := g.request, g.decision
	g.mu.Unlock()
	g.router.Observer.Observe(ObservedCall{
		Origin: call.Origin, Kind: request.Kind, Server: request.Server, Tool: request.Name, Params: call.Params, Unsent: reply.Denied != nil,
		Reply: reply, Cancelled: ctx.Err() != nil, Start: start, Duration: time.Since(start), Decision: decision,
	})
}

// argumentsOf returns the raw arguments in the params of a request, nil for none.
func argumentsOf(params []byte) []byte {
	args, ok := wire.Get(params, "arguments")
	if !ok || string(args) == "null" {
		return nil
	}
	return args
}
