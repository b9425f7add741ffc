// Package policy decides whether a request may be made: a call of a tool, by a client or
// by a script, a read of a resource, a prompt, a completion.
//
//	policy.go     Request, Decision, DeniedError
//	approval.go   Approval: what people have decided about a request
//	rule.go       Rule, Condition, Policy: compiling rules, and which requests they are for
//	covered.go    rules that can never decide
//	unknown.go    names in rules that nothing has
//	values.go     the variables of conditions
//	arguments.go  arguments as values that are exact
//	decide.go     which rule decides, and why
//	engine.go     Engine: decisions of a running proxy
//	history.go    what a session, run or client has called before
//
// Rules are tried in order, and the first that matches decides. A condition that cannot be
// evaluated denies, whatever the action of its rule: nothing is permitted by a mistake, nor
// by arguments that were made to cause one.
package policy

import (
	"fmt"
	"strings"
)

// Kind is what a Request asks for.
type Kind string

// The kinds of requests.
const (
	KindTool       Kind = "tool"
	KindResource   Kind = "resource" // a read of a resource, or a subscription
	KindPrompt     Kind = "prompt"
	KindCompletion Kind = "completion" // of an argument of a prompt or of a resource template
	KindMethod     Kind = "method"     // a request that we forward without knowing its method
)

// Action is what happens to a request.
type Action string

// The actions. A Decision without an action allows.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// The names of servers for what is not of an upstream.
const (
	SavedTools   = "tools"
	BuiltinTools = "builtin"
)

// Request is what is decided about.
type Request struct {
	Kind       Kind
	Server     string // real name; SavedTools, BuiltinTools
	Name       string // the server's own name of the tool or prompt; the URI of a resource; the method
	Arguments  []byte // raw JSON object; nil for none. Aliased, not changed
	Definition []byte // raw definition; nil if there is none
	// Version is the tools.Definition.Hash of a saved tool, which its Definition does not
	// tell apart from one with other code; "" for others.
	Version string
	Caller  Caller

	// Commit says that the request is made now if it is allowed, so that it counts as
	// called. Without it, the decision is preliminary.
	Commit bool
	// Before is an earlier decision about the same request; nil for none. A request that
	// counted then does not count again.
	Before *Decision
	// Approved says that a person has allowed the request, so that it counts as called if
	// the action is Ask.
	Approved bool
}

// Target returns the name of what is asked for, as in rules, permissions and approvals.
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
	Script    string // the saved tool or eval_starlark that calls; "" for a direct call
	Run       string // id of the run; "" for a direct call

	// What the session, and the run with all runs of saved tools in it, have called
	// before; nil for nothing.
	SessionCalls, RunCalls *History
}

// Decision is the outcome for a request.
type Decision struct {
	Action Action
	Rule   string // name of the rule that decided; DefaultRule if none did
	Reason string // of the rule; may be ""

	// Approval says what people have decided, once they were asked; else nil.
	Approval *Approval

	committed bool // it counted as called
	stateful  bool // it depends on what was called before
	// What it was made with; see Engine.
	policy     *Policy
	definition definition
}

// DefaultRule stands for a rule in a Decision that no rule has made.
const DefaultRule = "default"

// Allowed reports whether the request may be made without asking anybody.
func (d Decision) Allowed() bool { return d.Action == Allow || d.Action == "" }

// Plain reports whether no rule has decided and the request may be made.
func (d Decision) Plain() bool { return d.Allowed() && (d.Rule == DefaultRule || d.Rule == "") }

// DeniedError says that policy does not permit a request.
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
