package policy

import "fmt"

// Step is the outcome of a rule in a decision.
type Step struct {
	Rule    string
	Matched bool
	// Why is why the rule did not match, or why its condition failed; "" for a plain match.
	Why string
}

// Missing is an unknown part of an earlier request.
type Missing string

// The parts of a request that may be missing.
const (
	ArgumentsNotRecorded Missing = "the arguments, which were not recorded"
	ArgumentsRedacted    Missing = "the arguments, which were redacted"
	DefinitionUnknown    Missing = "the definition, which is not known"
	LabelsUnknown        Missing = "what the session had been given, which is not recorded"
)

// Unknown lists the unknown parts of an earlier request.
type Unknown struct {
	Arguments  Missing // why they are not known; "" if they are
	Definition bool    // of the tool, as at the time of the request
	Given      bool    // the labels of the answers in the session
}

// Doubt says why no decision about an earlier request is possible.
type Doubt struct {
	Rule    string // the first rule that cannot be applied
	Missing Missing
}

func (d Doubt) String() string { return fmt.Sprintf("rule %q reads %s", d.Rule, d.Missing) }

// decide returns the decision, without an id. trace, if not nil, gets a step for each rule up to
// the deciding rule. e counts the calls per minute; nil: no calls.
func (p *Policy) decide(r *Request, e *Engine, trace func(Step)) Decision {
	d, _ := p.judge(r, e, Unknown{}, trace)
	return d
}

// judge is decide for a request with unknown parts. If the decision depends on an unknown part,
// doubt says which; otherwise doubt is nil.
func (p *Policy) judge(r *Request, e *Engine, unknown Unknown, trace func(Step)) (_ Decision, doubt *Doubt) {
	var v *Values
	stateful, uri := false, resourceOf(r)
	for _, rule := range p.rules {
		if why := rule.reaches(r, uri); why != reached {
			if trace != nil {
				trace(Step{Rule: rule.Name, Why: string(why)})
			}
			continue
		}
		var failed error
		held := true
		if rule.condition != nil {
			if v == nil {
				v = &Values{request: *r, engine: e}
			}
			reads := rule.condition.Reads()
			stateful = stateful || reads.Calls
			switch {
			case unknown.Arguments != "" && reads.Arguments:
				return Decision{}, &Doubt{rule.Name, unknown.Arguments}
			case unknown.Definition && reads.Definition:
				return Decision{}, &Doubt{rule.Name, DefinitionUnknown}
			case unknown.Given && reads.Given:
				return Decision{}, &Doubt{rule.Name, LabelsUnknown}
			}
			held, failed = rule.condition.Holds(v)
		}
		if !held && failed == nil {
			if trace != nil {
				trace(Step{Rule: rule.Name, Why: "its condition is false"})
			}
			continue
		}
		d := Decision{Action: rule.Action, Rule: rule.Name, Reason: rule.Reason, stateful: stateful}
		step := Step{Rule: rule.Name, Matched: true}
		if failed != nil { // a rule that cannot be applied permits nothing
			step.Why = fmt.Sprintf("its condition failed: %v", failed)
			d.Action, d.Reason = Deny, step.Why
		}
		if trace != nil {
			trace(step)
		}
		return d, nil
	}
	return Decision{Action: p.fallback, Rule: DefaultRule, stateful: stateful}, nil
}

// Explain returns the decision about a request, as if no call had been made in the last minute,
// with the outcome of each rule up to the deciding rule.
func (p *Policy) Explain(r Request) (Decision, []Step) {
	var steps []Step
	d := p.decide(&r, nil, func(s Step) { steps = append(steps, s) })
	return d, steps
}
