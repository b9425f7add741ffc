// Package backtest judges calls that the journal has recorded by another policy: what it
// would have allowed, asked for and denied.
package backtest

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Definitions returns the raw definition of a tool as it is now, nil if that is not known.
// server is that of policy.Request.
type Definitions func(server, tool string) []byte

// Verdict is what a policy says about one recorded call.
type Verdict struct {
	Server, Tool string
	Kind         policy.Kind
	Arguments    []byte // raw; nil for none, or if they are not recorded
	Script       string // that made the call; "" for a client
	// Decision is the one of the policy, unless Unmade is set or Doubt says why it cannot be
	// known.
	Decision policy.Decision
	Doubt    *policy.Doubt
	// Unmade reports that the call would not have been made, because the policy denies the
	// run that makes it.
	Unmade bool
	// Recorded is the decision at the time; nil if no rule decided and it was allowed.
	Recorded *policy.Decision
}

// Plain reports whether the call would have been made without asking anybody.
func (v *Verdict) Plain() bool { return v.Doubt == nil && !v.Unmade && v.Decision.Allowed() }

// Target returns what was called, as in rules.
func (v *Verdict) Target() string { return policy.Request{Server: v.Server, Name: v.Tool}.Target() }

// Group is a recorded run with the calls in it, or one call of a client without a script.
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

// Counts counts calls by what a policy says about them.
type Counts struct {
	Allowed  int     `json:"allowed"`
	Asked    int     `json:"asked"`
	Denied   int     `json:"denied"`
	Unmade   int     `json:"notMade"` // they would not have been made
	Doubtful int     `json:"unknown"` // they cannot be judged
	Why      Reasons `json:"unknownBecause"`
}

// Reasons counts calls that cannot be judged, by what is missing.
type Reasons struct {
	NotRecorded int `json:"argumentsNotRecorded"`
	Redacted    int `json:"argumentsRedacted"`
	Definition  int `json:"definitionUnknown"`
	Labels      int `json:"labelsUnknown,omitempty"` // of what the session had been given
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

// Strip removes what Judge does not need from a record: the answers and the log.
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
