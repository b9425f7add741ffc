// Package backtest judges calls that the journal has recorded by another policy: what it
// would have allowed, asked for and denied.
package backtest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/policy"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
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
	// Decision is the one of the policy, unless Doubt says why it cannot be known.
	Decision policy.Decision
	Doubt    string
	// Recorded is the decision at the time; nil if no rule decided and it was allowed.
	Recorded *policy.Decision
}

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
		case v.Doubt != "":
			c.Doubtful++
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
	Allowed  int `json:"allowed"`
	Asked    int `json:"asked"`
	Denied   int `json:"denied"`
	Doubtful int `json:"unknown"`
}

// Add adds other counts.
func (c *Counts) Add(more Counts) {
	c.Allowed, c.Asked = c.Allowed+more.Allowed, c.Asked+more.Asked
	c.Denied, c.Doubtful = c.Denied+more.Denied, c.Doubtful+more.Doubtful
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

// Judge judges runs, and calls without a script, in the order of their time. What was called
// before counts as in a running proxy, from the first of them on.
func Judge(p *policy.Policy, runs []journal.Record, calls []journal.Proxied, definitions Definitions) []Group {
	j := &judge{definitions: definitions, sessions: map[string]*policy.History{}, trees: map[string]tree{}}
	j.engine = policy.NewEngine(p, func() time.Time { return j.now })
	var groups []Group
	for i := range runs {
		r := &runs[i]
		groups = append(groups, Group{ID: r.ID, Start: r.Start, Tool: r.Definition.Name, Client: r.Client})
	}
	byID := map[string]int{}
	for i := range runs {
		byID[runs[i].ID] = i
	}
	proxied := map[string]*journal.Proxied{}
	for i := range calls {
		c := &calls[i]
		proxied[c.ID] = c
		groups = append(groups, Group{ID: c.ID, Start: c.Start, Client: c.Client})
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) })
	for i := range groups {
		g := &groups[i]
		if c := proxied[g.ID]; c != nil {
			g.Verdicts = []Verdict{j.proxied(c)}
		} else {
			g.Verdicts = j.root(&runs[byID[g.ID]])
		}
	}
	return groups
}

// judge judges with what was called before.
type judge struct {
	engine      *policy.Engine
	definitions Definitions
	now         time.Time // of the call that is judged
	sessions    map[string]*policy.History
	trees       map[string]tree // of runs that others may continue, by id
}

// tree is what a run has called. A run that continues it gets the answers of these calls
// again, and does not make them.
type tree struct {
	called *policy.History
	made   map[int]bool // the calls of the run itself, by their numbers
}

// caller returns the client of a record. Its token stands for its credentials.
func (j *judge) caller(c journal.Client) policy.Caller {
	if j.sessions[c.Session] == nil {
		j.sessions[c.Session] = &policy.History{}
	}
	who := policy.Caller{Client: c.Name, Session: c.Session, Principal: c.Token, SessionCalls: j.sessions[c.Session]}
	if c.Token != "" {
		who.Client, who.Token = c.Token, true
	}
	return who
}

// one judges one call. redacted says that texts in the arguments may have been replaced.
func (j *judge) one(r policy.Request, unknown policy.Unknown, redacted bool, recorded *policy.Decision) Verdict {
	if r.Kind == policy.KindTool {
		r.Definition = j.definitions(r.Server, r.Name)
		unknown.Definition = r.Definition == nil
	}
	if redacted && bytes.Contains(r.Arguments, []byte("****")) {
		unknown.Arguments = true
	}
	v := Verdict{Kind: r.Kind, Server: r.Server, Tool: r.Name, Arguments: r.Arguments, Script: r.Caller.Script, Recorded: recorded}
	v.Decision, v.Doubt = j.engine.Judge(r, unknown)
	return v
}

func (j *judge) proxied(c *journal.Proxied) Verdict {
	j.now = c.Start
	r := policy.Request{Kind: policy.Kind(cmp.Or(c.Kind, string(policy.KindTool))), Server: c.Server, Name: c.Tool, Caller: j.caller(c.Client)}
	args, ok := wire.Get(c.Params, "arguments")
	if ok && string(args) != "null" {
		r.Arguments = args
	}
	return j.one(r, policy.Unknown{Arguments: c.Params == nil}, c.Redacted, c.Decision)
}

// root judges the request for a run, and its calls.
func (j *judge) root(rec *journal.Record) []Verdict {
	j.now = rec.Start
	r := policy.Request{Kind: policy.KindTool, Server: policy.SavedTools, Name: rec.Definition.Name, Arguments: rec.Params, Caller: j.caller(rec.Client)}
	if !rec.Saved {
		r.Server, r.Name = policy.BuiltinTools, compose.EvalName
		var args wire.Object
		args.Text("code", rec.Definition.Code)
		args.Raw("params", rec.Params)
		r.Arguments = args.Bytes()
	}
	t, continues := j.trees[rec.Continues]
	var all []Verdict
	if !continues {
		t.called = &policy.History{}
		all = append(all, j.one(r, policy.Unknown{}, rec.Redacted, nil))
	}
	all = append(all, j.calls(rec, rec.Client, t)...)
	made := maps.Clone(t.made)
	for _, c := range rec.Calls {
		if c.Done && (c.Answer.Err == nil || c.Answer.Err.Type != abi.ErrCancelled) {
			if made == nil {
				made = map[int]bool{}
			}
			made[c.Seq] = true
		}
	}
	j.trees[rec.ID] = tree{t.called, made}
	return all
}

// calls judges the calls of a run and of those below it, in the order in which they were
// made.
func (j *judge) calls(rec *journal.Record, client journal.Client, t tree) []Verdict {
	var all []Verdict
	for _, c := range rec.Calls {
		if t.made[c.Seq] || !exists(&c) {
			continue
		}
		j.now = rec.Start.Add(c.Start)
		r := policy.Request{Kind: policy.KindTool, Server: c.Server, Name: c.Tool, Arguments: c.Request.Arguments, Caller: j.caller(client)}
		r.Caller.Script, r.Caller.Run, r.Caller.RunCalls = rec.Definition.Name, rec.ID, t.called
		all = append(all, j.one(r, policy.Unknown{}, rec.Redacted, c.Answer.Decision))
		if c.Answer.Run != nil {
			all = append(all, j.calls(c.Answer.Run, client, tree{called: t.called})...)
		}
	}
	return all
}

// exists reports whether a call was of a tool that there was.
func exists(c *journal.CallRecord) bool {
	err := c.Answer.Err
	return err == nil || c.Answer.Result != nil || c.Answer.RPCError != nil || err.Type != abi.ErrRuntime && err.Type != abi.ErrValidation
}
