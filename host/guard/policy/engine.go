package policy

import (
	"sync"
	"sync/atomic"
	"time"
)

// Engine decides with a policy that can be replaced, and counts the calls of clients. It is
// safe for concurrent use.
type Engine struct {
	policy atomic.Pointer[Policy]
	now    func() time.Time

	// deciding makes decisions that depend on what was called before, and counts what they
	// allow, one at a time. Otherwise two calls at once could both be the last one that a
	// rule allows.
	deciding sync.Mutex

	mu      sync.Mutex // a leaf; guards what follows
	clients map[string]*minutes
}

// NewEngine returns an Engine. p may be nil: then everything is allowed.
func NewEngine(p *Policy, now func() time.Time) *Engine {
	e := &Engine{now: now, clients: map[string]*minutes{}}
	e.policy.Store(p)
	return e
}

// SetPolicy replaces the policy; nil: everything is allowed. Calls that have been counted
// stay so.
func (e *Engine) SetPolicy(p *Policy) { e.policy.Store(p) }

// Active reports whether there is a policy.
func (e *Engine) Active() bool { return e.policy.Load() != nil }

// Decide decides about a request. It waits for nothing but other decisions.
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
		r.Commit = false // it counts once
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

// Judge decides about a request that was made earlier, and counts it as called unless it is
// denied: what is asked for counts as approved. If the decision depends on what is unknown,
// doubt says so, and the request counts, too; otherwise doubt is nil.
func (e *Engine) Judge(r Request, unknown Unknown) (d Decision, doubt *Doubt) {
	e.deciding.Lock()
	defer e.deciding.Unlock()
	d, doubt = e.policy.Load().judge(&r, e, unknown, nil)
	if doubt != nil || d.Action != Deny {
		e.count(&r)
	}
	return d, doubt
}

// decision returns the decision of a policy, or the earlier one if nothing that matters to
// it has changed.
func (e *Engine) decision(p *Policy, r *Request) Decision {
	definition := definitionOf(r)
	if b := r.Before; b != nil && b.policy == p && b.definition == definition && !b.stateful && !b.committed {
		return *b
	}
	d := p.decide(r, e, nil)
	d.policy, d.definition = p, definition
	return d
}

// definition identifies a definition as it is in memory. Definitions do not change there.
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

// lastMinute returns how many calls the client of a request has made in the last minute,
// and how many of the same tool. full says that the latter is not known.
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
