// Package plan shows the effects of a composite tool in advance, and then carries out exactly these
// effects. docs/plans.md is the users' view; begin with [Plan] and [Planner].
//
// Making a plan is a run of the tool with its reads made and its writes withheld. The plan has all
// writes in their order, with their whole arguments. Applying a plan is a second run: reads get
// their old answers, and a write is made only if it is the next write of the plan. The rules that
// keep the effects equal to the approved plan are in stage.go alone: a script that detects
// planning, or an edited file, can make a plan that cannot be applied, but no plan with other
// effects.
package plan

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Version is the version of the format of plans. Plans of version 1 are applied, too; their digests
// are of canonical JSON.
const Version = 2

// Plan lists the effects of a composite tool in advance.
type Plan struct {
	Version int `json:"version"`
	// ID names the plan. The form is the form of the id of a run.
	ID string `json:"id"`
	// After is the id of the plan before, which this plan continues; "" for none.
	After   string    `json:"after,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`

	// Tool is the name of the saved tool; "" for unsaved code, which is then in Code. Digest of the
	// tool is its tools.Definition.Hash.
	Tool       string         `json:"tool,omitempty"`
	ToolDigest string         `json:"toolDigest"`
	Code       string         `json:"code,omitempty"`
	Params     jsontext.Value `json:"params"`
	// Meta is the _meta of the request for which the plan was made, which its calls get.
	Meta   jsontext.Value `json:"meta,omitempty"`
	Limits Limits         `json:"limits"`
	Guest  string         `json:"guest"` // digest
	// Now and Seed are the time of the run and its seed; see abi.Request.
	Now  int64  `json:"now"`
	Seed uint64 `json:"seed"`
	// Reads and Writes are the patterns of the configuration for reads and writes.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`

	// Permissions are the tools that the run has called or withheld, with the digests of their
	// definitions, in the order of their names.
	Permissions []Permission `json:"permissions"`
	// Before are the steps of the earlier plans that were applied.
	Before []Step `json:"before,omitempty"`
	Steps  []Step `json:"steps"`
	// Open says why the plan ends before the script; nil for a complete plan.
	Open *Open `json:"open,omitempty"`
	// Result is the result of the script, with references; absent if the plan is open.
	Result jsontext.Value `json:"result,omitempty"`
}

// Limits are the limits of the run: bytes, units of fuel, and numbers.
type Limits struct {
	Timeout   string `json:"timeout"` // in the form of time.Duration
	Memory    uint64 `json:"memory"`
	Fuel      uint64 `json:"fuel"`
	Calls     int    `json:"calls"`
	Arguments int    `json:"arguments"`
	Answer    int    `json:"answer"`
	Result    int    `json:"result"`
	Logs      int    `json:"logs"`
}

func limitsOf(l journal.Limits) Limits {
	return Limits{
		Timeout: l.Timeout.String(), Memory: l.Memory, Fuel: l.Fuel,
		Calls: l.Calls, Arguments: l.Arguments, Answer: l.Answer, Result: l.Result, Logs: l.Logs,
	}
}

// Permission is a tool that a plan uses: SERVER.TOOL, or tools.NAME for a saved tool.
type Permission struct {
	Tool   string `json:"tool"`
	Digest string `json:"digest"` // pins.Digest, or tools.Definition.Hash
}

// Do is the kind of a Step.
type Do string

// The kinds of steps.
const (
	Read   Do = "read"   // a call that was made for the plan
	Write  Do = "write"  // a call that was withheld
	Undo   Do = "undo"   // a compensation is registered: a call for the case that the run fails
	Commit Do = "commit" // the compensations are dropped
)

// Step is a step of the script.
type Step struct {
	Do Do `json:"do"`
	// Write is the number of a write, from 1; 0 for other steps.
	Write int `json:"write,omitempty"`
	// Script is the saved tool, or eval_starlark, whose script makes the step.
	Script string `json:"script"`
	Server string `json:"server,omitempty"` // real names
	Tool   string `json:"tool,omitempty"`
	// Raw means that the script gets the whole MCP result.
	Raw bool `json:"raw,omitempty"`
	// Arguments and Meta, the script's part of the _meta, may have references: an object with the
	// only member RefMember is the answer of the write with the member's number.
	Arguments jsontext.Value `json:"arguments,omitempty"`
	Meta      jsontext.Value `json:"meta,omitempty"`
	// Answer is the digest of the answer of a read, and of a write of an earlier plan; ""
	// otherwise.
	Answer string `json:"answer,omitempty"`
	// Policy is the decision of policy about a write when the plan was made; "" for a write allowed
	// without a rule.
	Policy string `json:"policy,omitempty"`
}

// name returns the call as people write it.
func (s *Step) name() string {
	if s.Do == Commit {
		return "commit()"
	}
	return s.Server + "." + s.Tool
}

// Open says where a plan ends, and why.
type Open struct {
	Reason string `json:"reason"`
	// Script is the saved tool, or eval_starlark, that goes no further. Line is the number of the
	// line, from 1, and Source its text; 0 and "" if not known.
	Script string `json:"script"`
	Line   int    `json:"line,omitempty"`
	Source string `json:"source,omitempty"`
}

// Digest identifies the content of the plan: the SHA-256 of its JSON without white space between
// values, in lower-case hexadecimal.
func (p *Plan) Digest() string { return digestAs(p.Version, p) }

// digestAs returns the digest of a part of a plan of a version.
func digestAs(version int, part any) string {
	text := wire.Marshal(part)
	if version == 1 {
		return pins.Digest(text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// writes returns how many writes the steps have.
func writes(steps []Step) (n int) {
	for i := range steps {
		if steps[i].Do == Write {
			n++
		}
	}
	return n
}

// Count returns how many writes the plan makes.
func (p *Plan) Count() int { return writes(p.Steps) }

// all returns the steps of the earlier plans and of this plan.
func (p *Plan) all() []Step { return append(p.Before[:len(p.Before):len(p.Before)], p.Steps...) }

// Name returns the name of the tool for readers.
func (p *Plan) Name() string {
	if p.Tool == "" {
		return "a script"
	}
	return p.Tool
}

// ExpiredError is the error for a plan that is too old to be applied.
type ExpiredError struct {
	ID      string
	Expires time.Time
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("plan %s expired at %s (make a new one; [plan] expires sets how long plans are good)", e.ID, e.Expires.UTC().Format(time.RFC3339))
}

// Text returns a plan for readers, with the whole content of its JSON. The text is safe to show in
// a terminal.
func (f *File) Text() string {
	p := &f.Plan
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s of %s: %s\n", p.ID, name(p), summary(p))
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", name, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n           "))
	}
	field("digest", "%s", f.Digest)
	field("made", "%s, good until %s", stamp(p.Created), stamp(p.Expires))
	if p.After != "" {
		field("after", "plan %s", p.After)
	}
	field("tool", "%s, digest %s", name(p), p.ToolDigest)
	if p.Code != "" {
		field("code", "%s", display.Text(p.Code))
	}
	field("params", "%s", shown(p.Params))
	if p.Meta != nil {
		field("meta", "%s", shown(p.Meta))
	}
	writeSteps(&b, p)
	switch {
	case p.Open != nil:
		b.WriteString("\nleft open: " + p.Open.text())
	case p.Result != nil:
		b.WriteString("\nresult: " + shown(p.Result) + "\n")
	}
	b.WriteString("\nbound to\n")
	for _, u := range p.Permissions {
		fmt.Fprintf(&b, "  %s, digest %s\n", display.Line(u.Tool, maxShown), u.Digest)
	}
	if p.Reads != nil || p.Writes != nil {
		fmt.Fprintf(&b, "  reads = %q, writes = %q\n", p.Reads, p.Writes)
	}
	fmt.Fprintf(&b, "  limits: %s\n", p.Limits.text())
	fmt.Fprintf(&b, "  clock %d, seed %d, guest %s, format %d\n", p.Now, p.Seed, p.Guest, p.Version)
	return b.String()
}

// name returns the name of the tool of a plan, to show.
func name(p *Plan) string { return display.Line(p.Name(), maxShown) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// summary counts the steps of a plan.
func summary(p *Plan) string {
	reads, undos := 0, 0
	for i := range p.Steps {
		switch p.Steps[i].Do {
		case Read:
			reads++
		case Undo:
			undos++
		}
	}
	text := fmt.Sprintf("%s, %s", count(p.Count(), "write"), count(reads, "read"))
	if undos > 0 {
		text += fmt.Sprintf(", %s if it fails", count(undos, "compensation"))
	}
	if p.Open != nil {
		text += ", and more that is not known yet"
	}
	return text
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func writeSteps(b *strings.Builder, p *Plan) {
	if len(p.Before) > 0 {
		b.WriteString("\ndone by the plans before\n")
		for i := range p.Before {
			b.WriteString(p.Before[i].text(p))
		}
	}
	b.WriteString("\nsteps\n")
	for i := range p.Steps {
		b.WriteString(p.Steps[i].text(p))
	}
	if len(p.Steps) == 0 {
		b.WriteString("  none\n")
	}
}

// text returns a step for readers, in lines.
func (s *Step) text(p *Plan) string {
	var b strings.Builder
	head := string(s.Do)
	switch s.Do {
	case Write:
		head = fmt.Sprintf("WRITE %d", s.Write)
	case Undo:
		head = "if it fails"
	case Commit:
		return "  commit: earlier calls are no longer undone\n"
	}
	fmt.Fprintf(&b, "  %s: %s", head, display.Line(s.name(), maxShown))
	if s.Raw {
		b.WriteString(" (whole result)")
	}
	if s.Script != cmp.Or(p.Tool, compose.EvalName) {
		fmt.Fprintf(&b, ", by %s", display.Line(s.Script, maxShown))
	}
	b.WriteString("\n")
	line := func(text string) { b.WriteString("      " + strings.ReplaceAll(text, "\n", "\n      ") + "\n") }
	line(shown(s.Arguments))
	if s.Meta != nil {
		line("meta " + shown(s.Meta))
	}
	if s.Answer != "" {
		line("answer " + s.Answer)
	}
	if s.Policy != "" {
		line("policy: " + display.Text(s.Policy))
	}
	return b.String()
}

func (o *Open) text() string {
	text := strings.ReplaceAll(display.Text(o.Reason), "\n", "\n      ") + "\n" // no line of the reason looks like a step
	if o.Line > 0 {
		text += fmt.Sprintf("  at line %d of %s: %s\n", o.Line, display.Line(o.Script, maxShown), display.Line(o.Source, maxShown))
	}
	return text
}

func (l *Limits) text() string {
	return fmt.Sprintf("%s, %s of memory, %d fuel, %d calls, arguments %s, answer %s, result %s, logs %s", display.Line(l.Timeout, maxShown),
		units.FormatSize(l.Memory), l.Fuel, l.Calls, size(l.Arguments), size(l.Answer), size(l.Result), size(l.Logs))
}

func size(n int) string { return units.FormatSize(uint64(max(0, n))) }

// shownWidth is how long JSON on a line may be.
const shownWidth = 100

// reference finds references in JSON that has been checked (badRefs). The pattern cannot match in a
// string, where a quote has a backslash before it.
var reference = lazyregexp.New(`\{\s*"\$withheld":\s*([0-9]+)\s*\}`)

// shown returns JSON of a plan for readers. A reference has no quotes, so no text can look like a
// reference.
func shown(raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return display.Text(string(raw))
	}
	if b.Len() > shownWidth {
		b.Reset()
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return display.Text(string(raw))
		}
	}
	return reference.ReplaceAllString(display.Text(b.String()), "<the answer of write $1>")
}

// Text returns the outcome of the writes of a plan, a line for each.
func (o *Outcome) Text() string { return MadeText(o.Made) }

// MadeText returns the outcome of writes for readers, a line for each.
func MadeText(all []Made) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "  write %d, %s: %s", m.Write, display.Line(m.Call, maxShown), m.State)
		if m.Message != "" {
			fmt.Fprintf(&b, " (%s)", display.Line(m.Message, maxShown))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Text returns the outcome of a plan for readers, with advice for an unknown outcome.
func (a *Aftermath) Text() string {
	var b strings.Builder
	b.WriteString(MadeText(a.Made))
	unknown := false
	for _, m := range a.Made {
		unknown = unknown || m.State == IsUnknown || m.State == Failed
	}
	if !a.Ended {
		fmt.Fprintf(&b, "\nrun %s has not ended: it goes on, or its process was stopped. What was made stays made.\n", a.Run)
	}
	for i, u := range a.Left {
		if i == 0 {
			b.WriteString("These compensations were not made:\n")
		}
		fmt.Fprintf(&b, "  %s %s\n", display.Line(u.name(), maxShown), shown(u.Arguments))
	}
	if !a.Ended || unknown {
		if a.Ended {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "Look at the servers, and at mcp-metatool runs show %s, before you make a new plan.\n", a.Run)
	}
	return b.String()
}
