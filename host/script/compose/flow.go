package compose

import (
	"context"
	"errors"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Flow has the settings for following information flow; see package shadow. All but Keep, Inherited,
// Session and Odd must be set.
type Flow struct {
	flow.Settings
	// Sandbox runs the shadows. Shadows have their own slots and queue, so that shadows never take
	// the slots of runs.
	Sandbox func() (Sandbox, error)
	Slots   *shadow.Slots
	// Definitions returns the definitions of tools as they are now. They stay so.
	Definitions func() func(server, tool string) []byte
	// Inherited returns the labels of servers from earlier runs, and Keep adds some.
	Inherited func(ctx context.Context) (map[string]flow.Labels, error)
	Keep      func(ctx context.Context, server string, set flow.Labels) error
	// Odd is the Odd of flow.Rules.
	Odd func(server string, ifc []byte)
	// Session returns the memory of the session of an origin; nil for none.
	Session func(o route.Origin) shadow.Session
}

// followed returns the shadow.Tree that follows the run, the root of its tree; nil for none.
func (r *run) followed(ctx context.Context) *shadow.Tree {
	f := r.cfg.Flow
	if f == nil || r.replay != nil {
		return nil
	}
	rec := r.journal.Record()
	rules := &flow.Rules{Settings: f.Settings, Odd: f.Odd}
	var unknown error
	if f.Inherited != nil {
		rules.Inherited, unknown = f.Inherited(ctx)
	}
	o := shadow.Options{
		Rules: rules, Definitions: f.Definitions, Unknown: unknown, Slots: f.Slots, Owner: r.principal(), Begin: rec.Begin, Code: flow.ParseLabels(rec.Definition.Labels),
		Play: r.playShadow, Resolve: r.resolveForShadow, Sources: r.sources, Targets: r.targets, Join: joinMeta, Child: r.shadowChild,
		Seed: seedOf, Make: r.makeForShadow, Keep: f.Keep, Event: r.journal.Flow,
	}
	if r.tree.stage != nil {
		o.Planned = r.tree.approved
		o.Unsure = rec.Plan != nil && rec.Plan.Applies != "" // the answers of the plan were read before, with labels or not
	}
	if r.cfg.Saved != nil {
		o.Saved = r.cfg.Saved.Get
	}
	if f.Session != nil && r.origin != nil {
		if s := f.Session(r.origin); s != nil {
			o.Session = s
		}
	}
	tree := shadow.New(ctx, o)
	if r.progress != nil {
		r.progress.tell = func(more flow.Labels) flow.Labels {
			set := tree.Active() | more
			r.labelSession(set)
			return set
		}
	}
	return tree
}

// admitBatch is admit for the calls of a script. The calls of a stage are decided about when they
// are made.
func (r *run) admitBatch(ctx context.Context, targets []stack.Request) *abi.CallError {
	if r.tree.stage == nil {
		return r.admit(ctx, targets, false)
	}
	if t := r.tree.flow; t != nil {
		for i := range targets {
			c := &targets[i]
			c.Set(flowKey, shadow.Unmade(flow.Call{Server: c.Server, Tool: c.Tool}))
		}
	}
	return nil
}

// admit lets information flow decide about a batch, and returns whether the calls may be made. The
// error is for all calls.
func (r *run) admit(ctx context.Context, targets []stack.Request, undo bool) *abi.CallError {
	t := r.tree.flow
	if t == nil || r.replay != nil {
		return nil
	}
	b := shadow.Batch{Path: r.path, Undo: undo, Calls: make([]shadow.Request, len(targets))}
	for i := range targets {
		c := &targets[i]
		b.Calls[i] = shadow.Request{
			Call:   flow.Call{Server: c.Server, Tool: c.Tool, Arguments: c.Arguments, Meta: joinMeta(r.meta, c.Meta), Timeout: c.Timeout, Raw: c.Raw},
			Failed: c.Err != nil, Repeated: r.repeats(c) || stack.AnsweredBefore(c.Before) && c.RunBefore() == nil,
			Ask: r.asks(c),
		}
	}
	permit, denied := func() (shadow.Permit, *shadow.Denial) {
		if t.Active() != 0 {
			defer r.deciding(nil)()       // the time of shadows is their own
			r.tree.account.AddWorkers(-1) // the run waits for the shadows
			defer r.tree.account.AddWorkers(1)
		}
		return t.Admit(ctx, b)
	}()
	if denied != nil {
		return &abi.CallError{Type: denied.Type, Message: denied.Message}
	}
	for i := range targets {
		c := &targets[i]
		c.Set(flowKey, permit.Made[i])
		if permit.Withheld[i] != "" {
			c.Set(withheldKey, permit.Withheld[i])
		}
		if of := permit.Calls[i]; of != nil {
			c.Server, c.Tool = of.Server, of.Tool
			c.Arguments, c.Meta, c.Timeout, c.Raw = of.Arguments, of.Meta, of.Timeout, of.Raw
		}
	}
	return nil
}

// asks returns the function that asks a person about a call; nil if no person can be asked.
func (r *run) asks(t *stack.Request) func(ctx context.Context, rule, reason string) error {
	if r.cfg.Confirm == nil {
		return nil
	}
	if r.tree.approved() {
		return func(context.Context, string, string) error { return nil } // with the plan
	}
	return func(ctx context.Context, rule, reason string) error {
		if t.Meta != nil {
			return errors.New("the call has _meta, which people are not shown")
		}
		origin, asking := r.inquirer(t, nil)
		if !r.tree.questions.begin(asking) {
			return context.Cause(ctx)
		}
		defer r.tree.questions.end(asking)
		call := r.scriptCall(t, nil, nil)
		call.Pause, call.Before, call.Permit = nil, nil, nil
		return r.cfg.Confirm(ctx, origin, call, rule, reason)
	}
}

// principal returns the owner of shared shadows: the principal of the client, or its session
// without a principal; nil without a client.
func (r *run) principal() any {
	if r.origin == nil {
		return nil
	}
	s := r.origin.Session()
	if p := s.Principal(); p != "" {
		return p
	}
	return s
}

// playShadow runs a shadow of the run.
func (r *run) playShadow(ctx context.Context, begin journal.Begin, tape *shadow.Tape) journal.Record {
	failed := func(err error) journal.Record {
		return journal.Record{Done: true, Outcome: journal.Outcome{Error: abi.ErrResource, Message: err.Error()}}
	}
	box, err := r.cfg.Flow.Sandbox()
	if err != nil {
		return failed(err)
	}
	c := New(Options{Sandbox: box, Log: discarded, Limits: r.cfg.Limits})
	var owner any
	if r.origin != nil {
		owner = route.BudgetKey(r.origin.Session()) // the owner of the run
	}
	rec, err := c.replay(ctx, ReplayRun{Begin: begin, Recording: &shadowRecording{r, tape}}, owner, func(own *sandbox.Account) {
		tape.WhileWaiting(own.AddWorkers)
	})
	if err != nil {
		return failed(err)
	}
	return rec
}

// resolveForShadow finds the tool for a call of a shadow, without waiting for its server.
func (r *run) resolveForShadow(call abi.ToolCall) (server, tool string, failed *abi.CallError) {
	t := stack.Request{ToolCall: call, Server: call.Server, Tool: call.Tool}
	if call.Server == abi.Composites {
		t.Tool, t.Err = r.resolveSaved(call)
	} else if server, tool, err := r.cfg.Catalog.Resolve(call.Server, call.Tool, call.Exact); err != nil || server != "" {
		t.Server, t.Tool, t.Err = server, tool, err
	}
	if t.Err != nil {
		failed = t.Fail(unresolvedType(t.Err), t.Err.Error())
	}
	return t.Server, t.Tool, failed
}

// maxSources limits the saved tools whose literals count.
const maxSources = 50

// sources returns the code of saved tools named in a script, and of saved tools named in their
// code.
func (r *run) sources(code string) []string {
	if r.cfg.Saved == nil || !strings.Contains(code, abi.Composites) {
		return nil
	}
	var found []string
	seen := map[string]bool{}
	for next := []string{code}; len(next) > 0; next = next[1:] {
		for _, d := range r.cfg.Saved.List() {
			if seen[d.Name] || len(found) == maxSources || !strings.Contains(next[0], abi.Ident(d.Name)) && !strings.Contains(next[0], d.Name) {
				continue
			}
			seen[d.Name] = true
			if whole, err := r.cfg.Saved.Get(d.Name); err == nil {
				found, next = append(found, whole.Code), append(next, whole.Code)
			}
		}
	}
	return found
}

// targets returns the targets that the script may call, with the targets of the saved tools among
// them.
func (r *run) targets(ctx context.Context) []string {
	from := r.permissionSource()
	from.Servers, from.Hides = nil, nil
	p, _, err := from.Derive(ctx, r.journal.Record().Definition)
	if err != nil || len(p.Unresolved) > 0 { // the target could be any
		return []string{"*"}
	}
	return p.Calls
}

// shadowChild returns the input of a saved tool in a shadow.
func (r *run) shadowChild(def tools.Definition, params, meta []byte) journal.Begin {
	b := r.Composer.budget(def.Limits)
	return journal.Begin{
		Definition: def, Saved: true, Params: params, Meta: meta, Limits: b.record(),
		Servers: r.names(def.Code), AgentTools: r.Composer.agentTools(def.Code), Guest: sandbox.GuestDigest(),
	}
}

// makeForShadow makes a call of a shadow when the run has ended.
func (r *run) makeForShadow(ctx context.Context, of flow.Call) journal.Answer {
	t := stack.Request{
		ToolCall: abi.ToolCall{Server: of.Server, Tool: of.Tool, Arguments: of.Arguments, Meta: of.Meta, Timeout: of.Timeout, Raw: of.Raw},
		Server:   of.Server, Tool: of.Tool,
	}
	if failed := r.permitted.permit(&t); failed != nil {
		return journal.Answer{Err: failed}
	}
	if t.Timeout > 0 {
		limited, _, stop := startClock(ctx, t.Limit())
		defer stop()
		ctx = limited
	}
	call := r.scriptCall(&t, nil, nil)
	call.Before, call.Permit = nil, nil
	call.Decided = func(policy.Decision) {}
	return answerOf(&t, r.cfg.Upstreams.CallUpstream(ctx, r.origin, call))
}

// shadowRecording is the Recording of a shadow.
type shadowRecording struct {
	run  *run
	tape *shadow.Tape
}

// Calls implements Recording.
func (s *shadowRecording) Calls(requests []abi.ToolCall) []ReplayedCall {
	replayed := make([]ReplayedCall, len(requests))
	for i, p := range s.tape.Calls(requests) {
		replayed[i] = ReplayedCall{Server: p.Server, Tool: p.Tool, Answer: p.Answer}
		if p.Tape != nil {
			replayed[i].Run = &ReplayRun{Begin: p.Begin, Recording: &shadowRecording{s.run, p.Tape}}
			replayed[i].Recompute = true
		}
	}
	return replayed
}

// Undo implements Recording.
func (s *shadowRecording) Undo(request abi.ToolCall) (server, tool string, failed *abi.CallError) {
	return s.tape.Undo(request)
}

// Undoing reports that a script has failed and that the compensations follow.
func (s *shadowRecording) Undoing(f *Failure) { s.tape.Undoing(f.Type) }

// Compensation implements Recording.
func (s *shadowRecording) Compensation(request abi.ToolCall, server, tool string) journal.Answer {
	return s.tape.Compensation(request, server, tool)
}

// Log implements Recording.
func (s *shadowRecording) Log(abi.LogLevel, string) {}

// End implements Recording.
func (s *shadowRecording) End(journal.Record) {}

// ifcMeta returns a raw _meta with labels; nil for none.
func ifcMeta(set flow.Labels) []byte {
	if set == 0 {
		return nil
	}
	var o wire.Object
	o.Raw(flow.MetaKey, set.Meta())
	return o.Bytes()
}

// tell notes a message to the client with the current labels, or with more labels, and returns the
// labels.
func (r *run) tell(more flow.Labels) flow.Labels {
	set := r.tree.flow.Active() | more
	if set != 0 {
		r.labelSession(set)
	}
	return set
}

func (r *run) labelSession(set flow.Labels) {
	if f := r.cfg.Flow; f != nil && f.Session != nil && r.origin != nil && set != 0 {
		if s := f.Session(r.origin); s != nil {
			s.Label(set)
		}
	}
}

// childMoment returns the time and the seed for the run of a saved tool if they must not depend on
// the time of the call; nil otherwise.
func (r *run) childMoment(t *stack.Request) *Moment {
	f := r.tree.flow
	if f.Active() == 0 || r.tree.stage != nil {
		return nil
	}
	now, seed := f.Moment(madeOf(t).Path())
	return &Moment{Now: now, Seed: seed}
}
