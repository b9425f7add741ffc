package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Outcome is the result of an applied plan.
type Outcome struct {
	Record   journal.Record // of the run
	Failure  *compose.Failure
	Differs  bool   // failed because of a difference from the plan
	Made     []Made // the outcome of each write
	Next     *File  // the next plan, if the script could go no further; nil otherwise
	Finished bool   // the script has succeeded, with the result in Record
}

// Find returns a plan of the store for the client that made it. The error is ErrNotFound for the
// plans of other clients.
func (p *Planner) Find(ctx context.Context, id string, origin route.Origin) (*File, error) {
	f, err := p.cfg.Store.Load(ctx, id)
	if err == nil && f.Principal != principalOf(origin) {
		return nil, fmt.Errorf("plan %s: %w", id, ErrNotFound)
	}
	return f, err
}

// Check returns why a plan cannot be applied here and now, and the policy decision about its
// writes: the strictest of all decisions that do not allow a write at once. Check makes no calls
// and waits for servers to start.
func (p *Planner) Check(ctx context.Context, file *File, origin route.Origin) (policy.Decision, error) {
	none := policy.Decision{}
	plan := &file.Plan
	if err := plan.isExpired(p.cfg.Now()); err != nil {
		return none, err
	}
	if used, err := p.cfg.Store.Applied(ctx, file.Digest); err != nil || used != nil {
		return none, errors.Join(err, used.error())
	}
	if plan.Open != nil && plan.Count() == 0 {
		return none, fmt.Errorf("plan %s has no writes, and the script goes no further without help: %s", plan.ID, display.ClipSize(plan.Open.Reason, maxMessage))
	}
	if _, err := p.sameHere(plan); err != nil {
		return none, err
	}
	for _, s := range plan.all() {
		if s.Do == Commit {
			continue
		}
		if err := p.sameDefinition(ctx, plan, &s, origin); err != nil {
			return none, err
		}
	}
	for i := range plan.Permissions {
		if err := p.sameSaved(&plan.Permissions[i]); err != nil {
			return none, err
		}
	}
	return p.preview(ctx, plan, origin)
}

// sameHere checks that the tool and the configuration are as in the plan, and returns the tool.
func (p *Planner) sameHere(plan *Plan) (tools.Definition, error) {
	def, err := p.definition(plan.Tool, plan.Code)
	if err != nil {
		return def, err
	}
	changed := func(format string, args ...any) (tools.Definition, error) {
		return def, fmt.Errorf("since plan %s was made, "+format+" (make a new plan)", append([]any{plan.ID}, args...)...)
	}
	limits := limitsOf(p.cfg.Composer.LimitsOf(def.Limits))
	switch {
	case def.Hash() != plan.ToolDigest && plan.Tool == "":
		return changed("its code was changed: its digest is %s, and the plan is bound to %s", def.Hash(), plan.ToolDigest)
	case def.Hash() != plan.ToolDigest:
		return changed("saved tool %q was changed: its digest is %s, and the plan is bound to %s", plan.Tool, def.Hash(), plan.ToolDigest)
	case limits != plan.Limits:
		return changed("the limits were changed: they are %s, and the plan is bound to %s", limits.text(), plan.Limits.text())
	case plan.Guest != p.cfg.Guest:
		return changed("this program was updated: its guest is %s, and the plan is bound to %s", p.cfg.Guest, plan.Guest)
	case !slices.Equal(plan.Reads, p.cfg.Reads) || !slices.Equal(plan.Writes, p.cfg.Writes):
		return changed("[plan] was changed: reads = %q, writes = %q, and the plan is bound to reads = %q, writes = %q",
			p.cfg.Reads, p.cfg.Writes, plan.Reads, plan.Writes)
	}
	return def, nil
}

// sameDefinition checks that the tool of a step is the tool of the plan.
func (p *Planner) sameDefinition(ctx context.Context, plan *Plan, s *Step, origin route.Origin) error {
	name := s.name()
	i := slices.IndexFunc(plan.Permissions, func(p Permission) bool { return p.Tool == name })
	if i < 0 {
		return fmt.Errorf("plan %s uses %s, which is not among its permissions", plan.ID, name)
	}
	if err := p.cfg.Router.Ready(ctx, origin, s.Server); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	definition := p.cfg.Definition(s.Server, s.Tool)
	if digestOf(definition) != plan.Permissions[i].Digest {
		return fmt.Errorf("the definition of %s has changed since plan %s was made (look at it, and make a new plan)", name, plan.ID)
	}
	if do := p.cfg.classify(s.Server, s.Tool, definition); s.Do != Undo && do != s.Do {
		return fmt.Errorf("%s is a %s here, and a %s in plan %s", name, do, s.Do, plan.ID)
	}
	return nil
}

// sameSaved checks that a saved tool is the tool of the plan.
func (p *Planner) sameSaved(permission *Permission) error {
	name, ok := savedName(permission.Tool)
	if !ok {
		return nil
	}
	def, err := p.definition(name, "")
	if err != nil {
		return err
	}
	if def.Hash() != permission.Digest {
		return fmt.Errorf("saved tool %q was changed since the plan was made (make a new plan)", name)
	}
	return nil
}

// preview returns the policy decision about the writes of a plan.
func (p *Planner) preview(ctx context.Context, plan *Plan, origin route.Origin) (policy.Decision, error) {
	strictest := policy.Decision{}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		if s.Do != Write && s.Do != Undo {
			continue
		}
		var params wire.Object
		params.Text("name", s.Tool)
		params.Raw("arguments", s.Arguments)
		d, err := p.cfg.Router.Preview(ctx, origin, route.ScriptCall{Server: s.Server, Tool: s.Tool, Params: params.Bytes(), Script: s.Script})
		if err != nil {
			return d, fmt.Errorf("step %d of plan %s: %w", i+1, plan.ID, err)
		}
		if d.Action == policy.Ask && strictest.Action != policy.Ask {
			strictest = d
		}
	}
	return strictest, nil
}

// ApplyOptions say how a plan is applied.
type ApplyOptions struct {
	// Fresh makes the reads again, which must have the same answers.
	Fresh bool
	// Approved means: a person has allowed the writes of the plan, so that policy need not ask for
	// each. Denied writes stay denied.
	Approved bool
}

// Apply carries out a plan that Check has found good. The plan is used up then, whatever the
// result. The error says why no call was made.
func (p *Planner) Apply(ctx context.Context, file *File, opts ApplyOptions, call route.Call) (*Outcome, error) {
	plan := file.Plan
	def, err := p.sameHere(&plan) // Check may be long ago: a person was asked since
	if err != nil {
		return nil, err
	}
	s := p.newStage(call.Origin)
	s.moment = compose.Moment{Now: plan.Now, Seed: plan.Seed}
	s.record.Applies, s.record.Digest = plan.ID, file.Digest
	s.applies, s.fresh, s.allowed = &plan, opts.Fresh, opts.Approved
	s.steps, s.writes = slices.Clone(plan.all()), writes(plan.Before)+writes(plan.Steps)
	s.answers = p.answers(ctx, file)
	if err := p.answersSuffice(s); err != nil {
		return nil, err
	}
	claim, err := p.cfg.Store.Claim(ctx, file)
	if err != nil {
		return nil, err
	}
	call.Params, call.Began = nil, s.began(ctx, claim, call.Began)
	if plan.Meta != nil {
		var params wire.Object
		params.Raw("_meta", plan.Meta)
		call.Params = params.Bytes()
	}
	rec, f := p.cfg.Composer.RunStaged(ctx, def, plan.Tool != "", plan.Params, call, s)
	return p.outcome(ctx, s, Subject{plan.Tool, plan.Code, plan.Params}, rec, f)
}

// began returns a function for route.Call.Began that notes the run with the claim for a plan. If
// the note fails, the run makes no calls, which later could not be traced.
func (s *stage) began(ctx context.Context, claim *Claim, also func(string, time.Time)) func(string, time.Time) {
	return func(id string, at time.Time) {
		if err := claim.Began(ctx, id); err != nil {
			s.stopped = fmt.Errorf("the run cannot be noted with the plan: %w", err)
		}
		if also != nil {
			also(id, at)
		}
	}
}

// answers returns the known answers of a plan: of the answers in the file and of the answers kept
// here, all with the digests of the plan.
func (p *Planner) answers(ctx context.Context, file *File) []Answer {
	all := file.Plan.all()
	answers := make([]Answer, len(all))
	kept := file.Answers
	if own, err := p.cfg.Store.Load(ctx, file.Plan.ID); err == nil && own.Digest == file.Digest {
		kept = own.Answers
	}
	for i := range min(len(kept), len(all)) {
		if kept[i].isKnown() && digestAs(file.Plan.Version, kept[i]) == all[i].Answer {
			answers[i] = kept[i]
		}
	}
	return answers
}

// answersSuffice checks that all needed answers are known.
func (p *Planner) answersSuffice(s *stage) error {
	for i := range s.steps {
		step, past := &s.steps[i], i < len(s.applies.Before)
		needed := past && (step.Do == Read || step.Do == Write) || step.Do == Read && !s.fresh
		switch {
		case !needed || s.answers[i].isKnown():
		case past:
			return fmt.Errorf("%s, %s: its answer is known only where the plan before was applied (apply this plan there, or give it the answers with --answers)", s.place(i), step.name())
		default:
			return fmt.Errorf("%s, %s: %w", s.place(i), step.name(), errNoAnswer)
		}
	}
	return nil
}

// outcome returns the outcome of the plan of a stage whose run has ended.
func (p *Planner) outcome(ctx context.Context, s *stage, of Subject, rec journal.Record, f *compose.Failure) (*Outcome, error) {
	o := &Outcome{Record: rec, Failure: f, Differs: s.differs}
	o.Made, _ = made(s.applies, &rec)
	if f != nil && (f.Type != abi.ErrWithheld || s.differs) {
		return o, nil
	}
	o.Failure = nil
	if f == nil && writes(s.next) == 0 {
		o.Finished = true
		return o, nil
	}
	var err error
	if o.Next, err = p.finish(ctx, s, of, &rec); err != nil {
		return o, fmt.Errorf("the plan was applied, but the next plan cannot be kept: %w", err)
	}
	return o, nil
}
