// Package backtest judges recorded calls by another policy: which calls the policy would have
// allowed, asked for and denied. Begin with Judge.
package backtest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
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
	Recorded *journal.Decision
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

// Judge judges runs, and calls without a script, each request at the recorded time. Earlier calls
// count as in a running proxy, from the first request on.
//
// The calls of a denied run would not have been made. After a denied call in a run, the script is
// assumed to continue as recorded.
func Judge(p *policy.Policy, runs []journal.Record, calls []journal.Proxied, definitions Definitions) []Group {
	var groups []Group
	runOf, callOf := map[string]*journal.Record{}, map[string]*journal.Proxied{}
	for i := range runs {
		r := &runs[i]
		runOf[r.ID] = r
		groups = append(groups, Group{ID: r.ID, Start: r.Start, Tool: r.Definition.Name, Client: r.Client})
	}
	asked, calls := split(runs, calls)
	for i := range calls {
		c := &calls[i]
		callOf[c.ID] = c
		groups = append(groups, Group{ID: c.ID, Start: c.Start, Client: c.Client})
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) })

	r := reader{sessions: map[string]*policy.History{}, trees: map[string]tree{}, asked: asked}
	for i := range groups {
		r.group = i
		if c := callOf[groups[i].ID]; c != nil {
			r.proxied(c)
		} else {
			r.root(runOf[groups[i].ID])
		}
	}
	// Runs overlap, and the calls per minute depend on the order.
	slices.SortStableFunc(r.requests, func(a, b request) int { return a.at.Compare(b.at) })
	var now time.Time
	engine := policy.NewEngine(p, func() time.Time { return now })
	for i := range r.requests {
		q := &r.requests[i]
		now = q.at
		groups[q.group].Verdicts = append(groups[q.group].Verdicts, q.judge(engine, definitions))
	}
	return groups
}

// request is a recorded request to judge.
type request struct {
	policy.Request
	at       time.Time
	group    int
	missing  policy.Missing // why the arguments are not known; "" if they are
	recorded *journal.Decision
	by       *fate // of the calling run; nil for a client
	starts   *fate // of the started run; nil for a request that starts no run
}

// fate is the fate of a run under the policy.
type fate struct{ unmade bool }

func (q *request) judge(e *policy.Engine, definitions Definitions) Verdict {
	v := Verdict{Kind: q.Kind, Server: q.Server, Tool: q.Name, Arguments: q.Arguments, Script: q.Caller.Script, Recorded: q.recorded}
	if q.by != nil && q.by.unmade {
		v.Unmade = true
	} else {
		unknown := policy.Unknown{Arguments: q.missing, Given: true}
		if q.Kind == policy.KindTool {
			q.Definition = definitions(q.Server, q.Name)
			unknown.Definition = q.Definition == nil
		}
		v.Decision, v.Doubt = e.Judge(q.Request, unknown)
	}
	if q.starts != nil {
		q.starts.unmade = v.Unmade || v.Doubt == nil && v.Decision.Action == policy.Deny
	}
	return v
}

// split returns the decisions about requests for runs, by the ids of the runs, and the remaining
// calls: a request for a run with a question to a person is in the journal twice.
func split(runs []journal.Record, calls []journal.Proxied) (asked map[string]*journal.Decision, others []journal.Proxied) {
	type key struct {
		server, tool string
		client       journal.Client
	}
	started := map[key][]*journal.Record{}
	for i := range runs {
		server, name := policy.SavedTools, runs[i].Definition.Name
		if !runs[i].Saved {
			server, name = policy.BuiltinTools, compose.EvalName
		}
		k := key{server, name, runs[i].Client}
		started[k] = append(started[k], &runs[i])
	}
	byStart := func(a, b *journal.Record) int { return a.Start.Compare(b.Start) }
	for _, list := range started {
		slices.SortFunc(list, byStart)
	}
	asked = map[string]*journal.Decision{}
	for _, c := range calls {
		var of *journal.Record
		if list := started[key{c.Server, c.Tool, c.Client}]; c.Kind == "" && c.Outcome != journal.ProxiedDenied {
			i, _ := slices.BinarySearchFunc(list, &journal.Record{Start: c.Start}, byStart)
			for ; i < len(list) && of == nil && !list[i].Start.After(c.Start.Add(c.Duration)); i++ {
				if asked[list[i].ID] == nil {
					of = list[i]
				}
			}
		}
		if of == nil || c.Decision == nil {
			others = append(others, c)
		} else {
			asked[of.ID] = c.Decision
		}
	}
	return asked, others
}

// reader collects the requests to judge.
type reader struct {
	requests []request
	group    int // of the next request
	sessions map[string]*policy.History
	trees    map[string]tree              // of runs that later runs may continue, by id
	asked    map[string]*journal.Decision // about the requests for runs, by their ids
}

// tree has the calls of a run. A continuing run gets the answers of these calls again, and does not
// repeat the calls.
type tree struct {
	called *policy.History
	made   map[int]bool // the calls of the run itself, by their numbers
	fate   *fate
}

// caller returns the client of a record. The client's token stands for the credentials.
func (r *reader) caller(c journal.Client) policy.Caller {
	if r.sessions[c.Session] == nil {
		r.sessions[c.Session] = &policy.History{}
	}
	who := policy.Caller{Client: c.Name, Session: c.Session, Principal: c.Token, SessionCalls: r.sessions[c.Session]}
	if c.Token != "" {
		who.Client, who.Token = c.Token, true
	}
	return who
}

// add adds a request. redacted is set if texts in the arguments may have been replaced.
func (r *reader) add(q request, redacted bool) {
	q.group = r.group
	if redacted && bytes.Contains(q.Arguments, []byte(journal.Masked)) {
		q.missing = policy.ArgumentsRedacted
	}
	r.requests = append(r.requests, q)
}

func (r *reader) proxied(c *journal.Proxied) {
	q := request{at: c.Start, recorded: c.Decision}
	q.Kind, q.Server, q.Name, q.Caller = policy.Kind(cmp.Or(c.Kind, string(policy.KindTool))), c.Server, c.Tool, r.caller(c.Client)
	switch {
	case q.Kind == policy.KindResource || q.Kind == policy.KindMethod: // which have none
	case c.Params == nil:
		q.missing = policy.ArgumentsNotRecorded
	case q.Kind == policy.KindCompletion:
		q.Arguments = route.CompletionArguments(c.Params)
	default:
		if args, ok := wire.Get(c.Params, "arguments"); ok && string(args) != "null" {
			q.Arguments = args
		}
	}
	r.add(q, c.Redacted)
}

// root adds the request for a run, and the calls of the run.
func (r *reader) root(rec *journal.Record) {
	t, continues := r.trees[rec.Continues]
	if !continues {
		t = tree{called: &policy.History{}, fate: &fate{}}
		q := request{at: rec.Start, starts: t.fate, recorded: r.asked[rec.ID]}
		q.Kind, q.Server, q.Name, q.Arguments = policy.KindTool, policy.SavedTools, rec.Definition.Name, rec.Params
		q.Caller = r.caller(rec.Client)
		if !rec.Saved {
			var args wire.Object
			args.Text("code", rec.Definition.Code)
			args.Raw("params", rec.Params)
			q.Server, q.Name, q.Arguments = policy.BuiltinTools, compose.EvalName, args.Bytes()
		}
		r.add(q, rec.Redacted)
	}
	r.calls(rec, rec.Client, t, rec.Start)
}

// remember keeps the calls of a run for continuing runs.
func (r *reader) remember(rec *journal.Record, t tree) {
	made := maps.Clone(t.made)
	for _, c := range rec.Calls {
		if c.Done && (c.Answer.Err == nil || c.Answer.Err.Type != abi.ErrCancelled) {
			if made == nil {
				made = map[int]bool{}
			}
			made[c.Seq] = true
		}
	}
	r.trees[rec.ID] = tree{t.called, made, t.fate}
}

// calls adds the calls of a run and of the nested runs, at the beginning of the run at the
// earliest, for any clock.
func (r *reader) calls(rec *journal.Record, client journal.Client, t tree, begun time.Time) {
	for _, c := range rec.Calls {
		if t.made[c.Seq] || !exists(&c) {
			continue
		}
		q := request{at: rec.Start.Add(c.Start), by: t.fate, recorded: c.Answer.Decision}
		if q.at.Before(begun) {
			q.at = begun
		}
		q.Kind, q.Server, q.Name, q.Arguments = policy.KindTool, c.Server, c.Tool, c.Request.Arguments
		q.Caller = r.caller(client)
		q.Caller.Script, q.Caller.Run, q.Caller.RunCalls = rec.Definition.Name, rec.ID, t.called
		nested := c.Answer.Run
		if nested == nil {
			r.add(q, rec.Redacted)
			continue
		}
		inner, continues := r.trees[nested.Continues]
		if !continues {
			inner = tree{called: t.called, fate: &fate{}}
			q.starts = inner.fate
			r.add(q, rec.Redacted)
		}
		r.calls(nested, client, inner, q.at)
	}
	r.remember(rec, t)
}

// exists reports whether a call was of an existing tool.
func exists(c *journal.CallRecord) bool {
	err := c.Answer.Err
	return err == nil || c.Answer.Result != nil || c.Answer.RPCError != nil || err.Type != abi.ErrRuntime && err.Type != abi.ErrValidation
}
