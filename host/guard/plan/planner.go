package plan

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// Composer runs composite tools; see compose.Composer.
type Composer interface {
	RunStaged(ctx context.Context, def tools.Definition, saved bool, params []byte, call route.Call, stage compose.Stage) (journal.Record, *compose.Failure)
	// LimitsOf returns the limits of a run of a tool with these limits.
	LimitsOf(l tools.Limits) journal.Limits
}

// Router knows whether calls may be made; see route.Router.
type Router interface {
	// Ready waits until the server has started and its tools are known.
	Ready(ctx context.Context, origin route.Origin, server string) error
	// Preview returns the decision about a call without making the call. The error says why the
	// call may not be made even with an approval.
	Preview(ctx context.Context, origin route.Origin, call route.ScriptCall) (policy.Decision, error)
}

// Saved knows the saved tools; see tools.Store.
type Saved interface {
	Get(name string) (tools.Definition, error)
}

// Options configure a Planner. All must be set but Reads, Writes and Secret.
type Options struct {
	Composer Composer
	Router   Router
	Saved    Saved
	// Definition returns the raw definition of a tool by real names; nil for an unknown tool.
	Definition func(server, tool string) []byte
	Store      *Store
	Guest      string // digest of the guest
	// Reads and Writes are patterns of SERVER.TOOL, which outweigh the server's own claim
	// (readOnlyHint). Writes win.
	Reads, Writes []string
	// Expires is how long a plan is good.
	Expires time.Duration
	// Secret reports whether text has a secret of the configuration, and must not be kept; nil: no
	// text has.
	Secret func(text []byte) bool
	Now    func() time.Time
}

// Planner makes and applies plans. Concurrent use is safe.
type Planner struct{ cfg Options }

// New makes a Planner.
func New(cfg Options) *Planner {
	if cfg.Secret == nil {
		cfg.Secret = func([]byte) bool { return false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Planner{cfg}
}

// classify returns whether a call of a tool is a read or a write.
func (o *Options) classify(server, tool string, definition []byte) Do {
	name := server + "." + tool
	hint, _ := wire.Get(definition, "annotations", "readOnlyHint")
	switch {
	case glob.Any(o.Writes, name):
		return Write
	case glob.Any(o.Reads, name), string(hint) == "true":
		return Read
	}
	return Write
}

// Subject is the tool or code for which a plan is made.
type Subject struct {
	Tool   string // name of a saved tool; "" for code
	Code   string
	Params []byte // raw JSON object
}

// definition returns the definition of the subject.
func (p *Planner) definition(tool, code string) (tools.Definition, error) {
	if tool == "" {
		return tools.Definition{Name: compose.EvalName, Code: code}, nil
	}
	def, err := p.cfg.Saved.Get(tool)
	if errors.Is(err, tools.ErrNotFound) {
		return def, fmt.Errorf("there is no saved tool %q", tool)
	}
	return def, err
}

// newStage makes the stage of a run that makes a plan.
func (p *Planner) newStage(origin route.Origin) *stage {
	return &stage{
		Planner: p, origin: origin, used: map[string]string{}, results: map[int][]byte{},
		record: journal.Plan{Makes: journal.NewID(p.cfg.Now()), Marker: newMarker()},
	}
}

// newMarker returns a new abi.Request.Withheld, which cannot be guessed.
func newMarker() string {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "withheld-" + hex.EncodeToString(secret[:]) + "-"
}

// Make makes a plan and keeps the plan. call is the request of the client, nil Origin for none; of
// its params only the _meta counts. The failure is the failure of the script, or says why no plan
// was made. The record is the record of the run.
func (p *Planner) Make(ctx context.Context, of Subject, call route.Call) (*File, journal.Record, *compose.Failure) {
	def, err := p.definition(of.Tool, of.Code)
	if err != nil {
		return nil, journal.Record{}, &compose.Failure{Type: abi.ErrValidation, Message: err.Error()}
	}
	s := p.newStage(call.Origin)
	s.moment = compose.PresentMoment()
	rec, f := p.cfg.Composer.RunStaged(ctx, def, of.Tool != "", of.Params, call, s)
	if f != nil && f.Type != abi.ErrWithheld {
		return nil, rec, f
	}
	file, err := p.finish(ctx, s, of, &rec)
	switch {
	case errors.As(err, new(*FullError)):
		return nil, rec, &compose.Failure{Type: abi.ErrResource, Message: err.Error()}
	case err != nil:
		return nil, rec, &compose.Failure{Type: abi.ErrInternal, Message: err.Error()}
	}
	return file, rec, nil
}

// finish makes the plan of a stage whose run has ended, and keeps the plan, also if ctx has ended.
func (p *Planner) finish(ctx context.Context, s *stage, of Subject, rec *journal.Record) (*File, error) {
	now := p.cfg.Now().UTC().Truncate(time.Second)
	for i, a := range s.answers {
		if a.isKnown() { // answers of an earlier plan can have digests of another version
			s.steps[i].Answer = digestAs(Version, a)
		}
	}
	plan := Plan{
		Version: Version, ID: s.record.Makes, Created: now, Expires: now.Add(p.cfg.Expires),
		Tool: of.Tool, Code: of.Code, ToolDigest: rec.Definition.Hash(), Params: of.Params, Meta: rec.Meta,
		Limits: limitsOf(rec.Limits), Guest: rec.Guest, Now: rec.Now, Seed: rec.Seed, Reads: p.cfg.Reads, Writes: p.cfg.Writes,
		Permissions: s.permissions(), Before: s.steps, Steps: s.next, Open: s.open,
	}
	if s.applies != nil {
		plan.After = s.applies.ID
	}
	if plan.Steps == nil {
		plan.Steps = []Step{}
	}
	if plan.Open == nil {
		if result, _, err := withRefs(rec.Outcome.Result, s.record.Marker); err == nil {
			plan.Result = result
		}
	}
	file := &File{Plan: plan, Digest: plan.Digest(), Principal: principalOf(s.origin), owner: ownerOf(s.origin)}
	file.Answers = append(append(file.Answers, s.answers...), s.nextAnswers...)
	p.withoutSecrets(file)
	if err := p.cfg.Store.Keep(context.WithoutCancel(ctx), file); err != nil {
		return nil, err
	}
	return file, nil
}

// maxAnswers is how many bytes of answers are kept with a plan.
const maxAnswers = 32 << 20

// withoutSecrets drops the answers with secrets of the configuration, and the answers beyond the
// limit. Reads without an answer can be made again.
func (p *Planner) withoutSecrets(file *File) {
	left := maxAnswers
	for i, a := range file.Answers {
		if !a.isKnown() {
			continue
		}
		text := wire.Marshal(a)
		if left -= len(text); left < 0 || p.cfg.Secret(text) {
			file.Answers[i] = Answer{}
		}
	}
}

// principalOf returns who has asked for a plan; "" for clients without credentials, and for
// commands.
func principalOf(o route.Origin) string {
	if o == nil {
		return ""
	}
	return o.Session().Principal()
}

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
	// Approved means that a person has allowed the writes of the plan, so that policy need not ask for
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
