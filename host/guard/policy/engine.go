package policy

import (
	"sync"
	"sync/atomic"
	"time"
)

// Engine decides with a replaceable policy, and counts the calls of clients. Concurrent use is
// safe.
type Engine struct {
	policy atomic.Pointer[Policy]
	now    func() time.Time

	// deciding serializes the decisions that depend on earlier calls, with their counting.
	// Otherwise two concurrent calls could both be the last call that a rule allows.
	deciding sync.Mutex

	mu      sync.Mutex // a leaf; guards the following fields
	clients map[string]*minutes
}

// NewEngine returns an Engine. p may be nil: then everything is allowed.
func NewEngine(p *Policy, now func() time.Time) *Engine {
	e := &Engine{now: now, clients: map[string]*minutes{}}
	e.policy.Store(p)
	return e
}

// SetPolicy replaces the policy; nil: everything is allowed. The counts of calls stay.
func (e *Engine) SetPolicy(p *Policy) { e.policy.Store(p) }

// Active reports whether a policy exists.
func (e *Engine) Active() bool { return e.policy.Load() != nil }

// Decide decides about a request. Decide waits for other decisions only.
func (e *Engine) Decide(r Request) Decision {
	p := e.policy.Load()
	if p == nil {
		return Decision{Action: Allow}
	}
	counted := r.Before != nil && r.Before.committed
	if b := r.Before; counted {
		if b.policy == p && b.definition == definitionOf(&r) {
			return *b
		}
		r.Commit = false // already counted
	}
	if p.stateful {
		e.deciding.Lock()
		defer e.deciding.Unlock()
	}
	d := e.decision(p, &r)
	d.committed = counted
	if r.Commit && (d.Allowed() || d.Action == Ask && r.Approved) {
		e.count(&r)
		d.committed = true
	}
	return d
}

// Judge decides about an earlier request, and counts the request as called unless denied: the
// action Ask counts as approved. If the decision depends on an unknown part, doubt says which, and
// the request counts, too; otherwise doubt is nil.
func (e *Engine) Judge(r Request, unknown Unknown) (d Decision, doubt *Doubt) {
	e.deciding.Lock()
	defer e.deciding.Unlock()
	d, doubt = e.policy.Load().judge(&r, e, unknown, nil)
	if doubt != nil || d.Action != Deny {
		e.count(&r)
	}
	return d, doubt
}

// decision returns the decision of a policy, or the earlier decision if nothing relevant has
// changed.
func (e *Engine) decision(p *Policy, r *Request) Decision {
	definition := definitionOf(r)
	if b := r.Before; b != nil && b.policy == p && b.definition == definition && !b.stateful && !b.committed {
		return *b
	}
	d := p.decide(r, e, nil)
	d.policy, d.definition = p, definition
	return d
}

// definition identifies a definition in memory. Definitions in memory do not change.
type definition struct {
	first *byte
	size  int
}

func definitionOf(r *Request) definition {
	if len(r.Definition) == 0 {
		return definition{}
	}
	return definition{&r.Definition[0], len(r.Definition)}
}

// count counts a request as called.
func (e *Engine) count(r *Request) {
	c, second := callOf(r), e.now().Unix()
	r.Caller.SessionCalls.add(c)
	r.Caller.RunCalls.add(c)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.clients[r.Caller.account()]
	if m == nil {
		m = &minutes{byCall: map[call]*window{}}
		e.clients[r.Caller.account()] = m
	}
	m.add(second, c)
}

// account returns under which name the calls of a client count. A client without
// credentials may say anything about itself, so all of them count together.
func (c *Caller) account() string { return c.Principal }

// lastMinute returns the number of calls of the request's client in the last minute, and the number
// of calls of the same tool. full means: the second number is not known.
func (e *Engine) lastMinute(r *Request) (all, same int64, full bool) {
	if e == nil {
		return 0, 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.clients[r.Caller.account()]
	if m == nil {
		return 0, 0, false
	}
	all, same = m.count(e.now().Unix(), callOf(r))
	return all, same, m.full
}
