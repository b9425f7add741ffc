package plan

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
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
