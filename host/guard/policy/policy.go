// Package policy decides whether a request may be made: a call of a tool, by a client or by a
// script, a read of a resource, a prompt, a completion. Begin with [Request] and [Decision];
// [Policy] has compiled rules, and [Engine] decides for a running proxy.
//
// Rules are tried in order, and the first rule that matches decides. A condition that cannot be
// evaluated denies, whatever the action of its rule: neither a mistake, nor arguments made to cause
// a mistake, permit a request.
package policy

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of a Request.
type Kind string

// The kinds of requests.
const (
	KindTool       Kind = "tool"
	KindResource   Kind = "resource" // a read of a resource, or a subscription
	KindPrompt     Kind = "prompt"
	KindCompletion Kind = "completion" // of an argument of a prompt or of a resource template
	KindMethod     Kind = "method"     // a forwarded request with an unknown method
)

// Action is the outcome of a decision.
type Action string

// The actions. A Decision without an action allows.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// Names that stand for a server, for targets without an upstream.
const (
	SavedTools   = "tools"
	BuiltinTools = "builtin"
)

// Request is the subject of a decision.
type Request struct {
	Kind       Kind
	Server     string // real name; SavedTools, BuiltinTools
	Name       string // the server's own name of the tool or prompt; the URI of a resource; the method
	Arguments  []byte // raw JSON object; nil for none. Aliased, not changed
	Definition []byte // raw definition; nil for none
	// Version is the tools.Definition.Hash of a saved tool, whose Definition alone does not show a
	// change of code; "" for other targets.
	Version string
	Caller  Caller

	// Commit means that the request is made now if allowed, and counts as called. Without Commit, the
	// decision is preliminary.
	Commit bool
	// Before is an earlier decision about the same request; nil for none. A request counts only
	// once.
	Before *Decision
	// Approved means that a person has allowed the request, which counts as called if the action is
	// Ask.
	Approved bool
}

// Target returns the target of the request, as in rules, permissions and approvals.
func (r Request) Target() string {
	if r.Name == "" {
		return r.Server
	}
	return r.Server + "." + r.Name
}

// Caller says who makes a request.
type Caller struct {
	Client    string // name of the token; else clientInfo.name, of which the client may say anything
	Token     bool   // Client is the name of a token
	Session   string // route.Session.ID
	Principal string // route.Session.Principal
	Script    string // the calling saved tool or eval_starlark; "" for a direct call
	Run       string // id of the run; "" for a direct call

	// SessionCalls and RunCalls are the earlier calls of the session, and of the run with all its
	// runs of saved tools; nil for none.
	SessionCalls, RunCalls *History
}

// Decision is the outcome for a request.
type Decision struct {
	Action Action
	Rule   string // name of the deciding rule; DefaultRule for none
	Reason string // of the rule; may be ""

	// Approval is the decision of people, if people were asked; else nil.
	Approval *Approval

	committed bool // the request counted as called
	stateful  bool // the decision depends on earlier calls
	// The inputs of the decision; see Engine.
	policy     *Policy
	definition definition
}

// DefaultRule stands for the rule in a Decision without a rule.
const DefaultRule = "default"

// Allowed reports whether the request may be made without asking anybody.
func (d Decision) Allowed() bool { return d.Action == Allow || d.Action == "" }

// Plain reports whether no rule has decided and the request may be made.
func (d Decision) Plain() bool { return d.Allowed() && (d.Rule == DefaultRule || d.Rule == "") }

// DeniedError reports a request that policy does not permit.
type DeniedError struct {
	Target   string // Request.Target
	Decision Decision
	// Why is added for a request that needs the approval of a person; "" otherwise.
	Why string
}

func (e *DeniedError) Error() string {
	var b strings.Builder
	if e.Decision.Action == Ask {
		fmt.Fprintf(&b, "policy asks for the approval of %s", e.Target)
	} else {
		fmt.Fprintf(&b, "policy denies %s", e.Target)
	}
	if e.Decision.Rule == DefaultRule || e.Decision.Rule == "" {
		b.WriteString(" (no rule allows it)")
	} else {
		fmt.Fprintf(&b, " (rule %q)", e.Decision.Rule)
	}
	for _, text := range []string{e.Decision.Reason, e.Why} {
		if text != "" {
			b.WriteString(": " + text)
		}
	}
	return b.String()
}

// Approval says who was asked about a request, after a Decision with the action Ask, and with which
// result. Package approval makes Approvals.
type Approval struct {
	// ID is the id of the approval in the queue or of the remembered approval; "" for none.
	ID string
	// By is the name of the person who decided; "" for none.
	By string
	// How is the way of the decision, for example "client", "queue" or "remembered"; see the constants
	// of package approval.
	How string
	// Allowed reports whether the request may be made.
	Allowed bool
	At      time.Time     // time of the decision
	Waited  time.Duration // how long the request waited for the decision
	// Remembered reports that the decision was about an earlier request.
	Remembered bool
	// Digest is the keyed digest of the subject of the decision, in lower-case hex: tool,
	// arguments, definition, rule and client.
	Digest string
	Note   string // the person's note; may be ""
}

// Step is the outcome of a rule in a decision.
type Step struct {
	Rule    string
	Matched bool
	// Why is why the rule did not match, or why its condition failed; "" for a plain match.
	Why string
}

// Missing is an unknown part of an earlier request.
type Missing string

// The parts of a request that may be missing.
const (
	ArgumentsNotRecorded Missing = "the arguments, which were not recorded"
	ArgumentsRedacted    Missing = "the arguments, which were redacted"
	DefinitionUnknown    Missing = "the definition, which is not known"
	LabelsUnknown        Missing = "what the session had been given, which is not recorded"
)

// Unknown lists the unknown parts of an earlier request.
type Unknown struct {
	Arguments  Missing // why they are not known; "" if they are
	Definition bool    // of the tool, as at the time of the request
	Given      bool    // the labels of the answers in the session
}

// Doubt says why no decision about an earlier request is possible.
type Doubt struct {
	Rule    string // the first rule that cannot be applied
	Missing Missing
}

func (d Doubt) String() string { return fmt.Sprintf("rule %q reads %s", d.Rule, d.Missing) }

// decide returns the decision, without an id. trace, if not nil, gets a step for each rule up to
// the deciding rule. e counts the calls per minute; nil: no calls.
func (p *Policy) decide(r *Request, e *Engine, trace func(Step)) Decision {
	d, _ := p.judge(r, e, Unknown{}, trace)
	return d
}

// judge is decide for a request with unknown parts. If the decision depends on an unknown part,
// doubt says which; otherwise doubt is nil.
func (p *Policy) judge(r *Request, e *Engine, unknown Unknown, trace func(Step)) (_ Decision, doubt *Doubt) {
	var v *Values
	stateful, uri := false, resourceOf(r)
	for _, rule := range p.rules {
		if why := rule.reaches(r, uri); why != reached {
			if trace != nil {
				trace(Step{Rule: rule.Name, Why: string(why)})
			}
			continue
		}
		var failed error
		held := true
		if rule.condition != nil {
			if v == nil {
				v = &Values{request: *r, engine: e}
			}
			reads := rule.condition.Reads()
			stateful = stateful || reads.Calls
			switch {
			case unknown.Arguments != "" && reads.Arguments:
				return Decision{}, &Doubt{rule.Name, unknown.Arguments}
			case unknown.Definition && reads.Definition:
				return Decision{}, &Doubt{rule.Name, DefinitionUnknown}
			case unknown.Given && reads.Given:
				return Decision{}, &Doubt{rule.Name, LabelsUnknown}
			}
			held, failed = rule.condition.Holds(v)
		}
		if !held && failed == nil {
			if trace != nil {
				trace(Step{Rule: rule.Name, Why: "its condition is false"})
			}
			continue
		}
		d := Decision{Action: rule.Action, Rule: rule.Name, Reason: rule.Reason, stateful: stateful}
		step := Step{Rule: rule.Name, Matched: true}
		if failed != nil { // a rule that cannot be applied permits nothing
			step.Why = fmt.Sprintf("its condition failed: %v", failed)
			d.Action, d.Reason = Deny, step.Why
		}
		if trace != nil {
			trace(step)
		}
		return d, nil
	}
	return Decision{Action: p.fallback, Rule: DefaultRule, stateful: stateful}, nil
}

// Explain returns the decision about a request, as if no call had been made in the last minute,
// with the outcome of each rule up to the deciding rule.
func (p *Policy) Explain(r Request) (Decision, []Step) {
	var steps []Step
	d := p.decide(&r, nil, func(s Step) { steps = append(steps, s) })
	return d, steps
}
