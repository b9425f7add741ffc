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
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
	// Raw means: the script gets the whole MCP result.
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
