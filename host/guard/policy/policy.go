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

	// Commit means: the request is made now if allowed, and counts as called. Without Commit, the
	// decision is preliminary.
	Commit bool
	// Before is an earlier decision about the same request; nil for none. A request counts only
	// once.
	Before *Decision
	// Approved means: a person has allowed the request, which counts as called if the action is
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
