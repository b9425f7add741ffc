// Package backtest judges recorded calls by another policy: which calls the policy would have
// allowed, asked for and denied. Begin with Judge.
package backtest

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Definitions returns the current raw definition of a tool, or nil. server is as in policy.Request.
type Definitions func(server, tool string) []byte

// Verdict is the judgement of a policy about a recorded call.
type Verdict struct {
	Server, Tool string
	Kind         policy.Kind
	Arguments    []byte // raw; nil for none, or if they are not recorded
	Script       string // name of the calling script; "" for a client
	// Decision is the decision of the policy, unless Unmade is set or Doubt gives a reason for an
	// unknown decision.
	Decision policy.Decision
	Doubt    *policy.Doubt
	// Unmade is set if the call would not have been made, because the policy denies the calling
	// run.
	Unmade bool
	// Recorded is the decision at the time; nil for a call allowed without a rule.
	Recorded *policy.Decision
}

// Plain reports whether the call would have been made without asking anybody.
func (v *Verdict) Plain() bool { return v.Doubt == nil && !v.Unmade && v.Decision.Allowed() }

// Target returns the called tool, in the form of rules.
func (v *Verdict) Target() string { return policy.Request{Server: v.Server, Name: v.Tool}.Target() }

// Group is a recorded run with its calls, or a call of a client without a script.
type Group struct {
	ID       string
	Start    time.Time
	Tool     string // of the run: the saved tool or compose.EvalName; "" for a call without a script
	Client   journal.Client
	Verdicts []Verdict
}

// Count counts the verdicts of a group.
func (g *Group) Count() Counts {
	var c Counts
	for _, v := range g.Verdicts {
		switch {
		case v.Unmade:
			c.Unmade++
		case v.Doubt != nil:
			c.Doubtful++
			c.Why.count(v.Doubt.Missing)
		case v.Decision.Action == policy.Deny:
			c.Denied++
		case v.Decision.Action == policy.Ask:
			c.Asked++
		default:
			c.Allowed++
		}
	}
	return c
}

// Counts counts calls by the judgement of a policy.
type Counts struct {
	Allowed  int     `json:"allowed"`
	Asked    int     `json:"asked"`
	Denied   int     `json:"denied"`
	Unmade   int     `json:"notMade"` // they would not have been made
	Doubtful int     `json:"unknown"` // they cannot be judged
	Why      Reasons `json:"unknownBecause"`
}

// Reasons counts calls without a judgement, by the missing data.
type Reasons struct {
	NotRecorded int `json:"argumentsNotRecorded"`
	Redacted    int `json:"argumentsRedacted"`
	Definition  int `json:"definitionUnknown"`
	Labels      int `json:"labelsUnknown,omitempty"` // of the data given to the session
}

func (r *Reasons) count(m policy.Missing) {
	switch m {
	case policy.ArgumentsNotRecorded:
		r.NotRecorded++
	case policy.ArgumentsRedacted:
		r.Redacted++
	case policy.DefinitionUnknown:
		r.Definition++
	case policy.LabelsUnknown:
		r.Labels++
	}
}

// Add adds other counts.
func (c *Counts) Add(more Counts) {
	c.Allowed, c.Asked, c.Denied = c.Allowed+more.Allowed, c.Asked+more.Asked, c.Denied+more.Denied
	c.Unmade, c.Doubtful = c.Unmade+more.Unmade, c.Doubtful+more.Doubtful
	c.Why.NotRecorded += more.Why.NotRecorded
	c.Why.Redacted += more.Why.Redacted
	c.Why.Definition += more.Why.Definition
	c.Why.Labels += more.Why.Labels
}

// Strip removes the answers and the log from a record, because Judge does not need them.
func Strip(r *journal.Record) {
	r.Logs, r.Outcome.Result, r.Outcome.Failure = nil, nil, nil
	for i := range r.Calls {
		a := &r.Calls[i].Answer
		a.Value, a.Meta = nil, nil
		if a.Result != nil || a.RPCError != nil {
			a.Result, a.RPCError = []byte("{}"), nil
		}
		if a.Run != nil {
			Strip(a.Run)
		}
	}
}
