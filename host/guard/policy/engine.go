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
// of calls of the same tool. full means that the second number is not known.
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

// maxTargets is how many different tools a History holds.
const maxTargets = 10_000

// History is the list of calls of a session or run. The zero value is empty, and so is nil.
// Concurrent use is safe.
type History struct {
	mu      sync.Mutex     // a leaf
	calls   int64          // of everything
	byCall  map[call]int64 // how often
	order   []call         // the keys of byCall, as first seen
	called  []string       // the tools of byCall, as first seen; only appended to
	servers []string       // the servers of byCall, as first seen; only appended to
	full    bool           // the calls had more than maxTargets targets
	given   Given
}

// Given is the kind of answers that a session got from tools (package flow).
type Given struct {
	Private   bool `json:"private,omitempty"`   // answers that must not leak
	Untrusted bool `json:"untrusted,omitempty"` // answers that must not steer
	// Flagged means that a run in the session tried to send forbidden data, or may have.
	Flagged bool `json:"flagged,omitempty"`
}

// Give adds answers to the record of the session.
func (h *History) Give(g Given) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given.Private = h.given.Private || g.Private
	h.given.Untrusted = h.given.Untrusted || g.Untrusted
	h.given.Flagged = h.given.Flagged || g.Flagged
}

// Given returns the kinds of answers that the session got.
func (h *History) Given() Given {
	if h == nil {
		return Given{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.given
}

// call is a tool; or a prompt, or a server of which something else was used.
type call struct {
	kind         Kind
	server, name string
}

// callOf returns the entry under which a request counts. URIs are unbounded, so all resources of a
// server count together.
func callOf(r *Request) call {
	if r.Kind == KindTool || r.Kind == KindPrompt {
		return call{r.Kind, r.Server, r.Name}
	}
	return call{r.Kind, r.Server, ""}
}

// Add adds an earlier call of a tool, for example of the run that this run continues.
func (h *History) Add(server, tool string) { h.add(call{KindTool, server, tool}) }

func (h *History) add(c call) { h.addTimes(c, 1) }

func (h *History) addTimes(c call, times int64) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls += times
	if h.byCall == nil {
		h.byCall = map[call]int64{}
	}
	if n, known := h.byCall[c]; known {
		h.byCall[c] = n + times
		return
	}
	if len(h.byCall) == maxTargets {
		h.full = true
		return
	}
	h.byCall[c] = times
	h.order = append(h.order, c)
	if c.kind == KindTool {
		h.called = append(h.called, c.server+"."+c.name)
	}
	for _, s := range h.servers {
		if s == c.server {
			return
		}
	}
	h.servers = append(h.servers, c.server)
}

// errForgotten is the failure of a condition about earlier calls when the calls were too many to
// remember.
const errForgotten = Failure("more tools were called than are remembered")

// snapshot is the state of a History. Its slices must not be changed.
type snapshot struct {
	calls, same     int64 // calls of everything, and of a single tool
	called, servers []string
	full            bool
	given           Given
}

// at returns the state. A nil History has the zero state.
func (h *History) at(c call) snapshot {
	if h == nil {
		return snapshot{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return snapshot{h.calls, h.byCall[c], h.called[:len(h.called):len(h.called)], h.servers[:len(h.servers):len(h.servers)], h.full, h.given}
}

// Counts is the content of a History, for another process.
type Counts struct {
	// Total is how often something was called.
	Total int64 `json:"total,omitempty"`
	// Calls are the calls, in the order of their first use.
	Calls []Call `json:"calls,omitempty"`
	// Full means that more was called than is remembered.
	Full bool `json:"full,omitempty"`
	Given
}

// Call is how often a tool or prompt was called, or something else of a server.
type Call struct {
	Kind   Kind   `json:"kind"`
	Server string `json:"server"`
	Name   string `json:"name,omitempty"`
	Times  int64  `json:"times"`
}

// Counts returns the content.
func (h *History) Counts() Counts {
	if h == nil {
		return Counts{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	is := Counts{Total: h.calls, Full: h.full, Given: h.given}
	for _, c := range h.order {
		is.Calls = append(is.Calls, Call{c.kind, c.server, c.name, h.byCall[c]})
	}
	return is
}

// Restore sets the content of an empty History.
func (h *History) Restore(was Counts) {
	for _, c := range was.Calls {
		if c.Times > 0 {
			h.addTimes(call{c.Kind, c.Server, c.Name}, c.Times)
		}
	}
	h.Give(was.Given)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls, h.full = max(h.calls, was.Total), h.full || was.Full
}

// window counts calls in the last minute.
type window struct {
	last    int64     // the second of the newest bucket
	buckets [60]int64 // calls per second, by the second modulo 60
	total   int64
}

// at moves the window to a second.
func (w *window) at(second int64) {
	for n := 0; w.last < second && n < len(w.buckets); n++ {
		w.last++
		w.total -= w.buckets[w.last%60]
		w.buckets[w.last%60] = 0
	}
	w.last = max(w.last, second)
}

// minutes counts the calls of a client in the last minute.
type minutes struct {
	all    window
	byCall map[call]*window
	full   bool // the calls had more than maxTargets targets
}

func (m *minutes) add(second int64, c call) {
	m.all.add(second)
	w := m.byCall[c]
	if w == nil {
		if len(m.byCall) == maxTargets {
			m.forget(second)
		}
		if m.full = len(m.byCall) == maxTargets; !m.full {
			w = &window{}
			m.byCall[c] = w
		}
	}
	if w != nil {
		w.add(second)
	}
}

// forget removes the tools without a call in the last minute.
func (m *minutes) forget(second int64) {
	for c, w := range m.byCall {
		if w.at(second); w.total == 0 {
			delete(m.byCall, c)
		}
	}
}

func (w *window) add(second int64) {
	w.at(second)
	w.buckets[w.last%60]++
	w.total++
}

func (m *minutes) count(second int64, c call) (all, same int64) {
	m.all.at(second)
	if w := m.byCall[c]; w != nil {
		w.at(second)
		same = w.total
	}
	return m.all.total, same
}
