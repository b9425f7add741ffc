// Package flow is the domain of information flow: which answers of tools have labels, which
// calls care about them, and what stands in for labelled answers when a script runs a second
// time without them. It knows nothing of the sandbox; package host/script/compose/shadow runs the
// shadows.
//
//	flow.go     Label, Labels, Action, Settings
//	rules.go    Rules: sources, sinks and reads by patterns and by what servers say
//	ifc.go      labels in _meta.ifc
//	blank.go    values in place of labelled answers
//	schema.go   values from JSON Schemas
//	literals.go the literals of a script
//	compare.go  whether two calls are the same
//	advice.go   what is probably not meant in Settings
//
// The method is secure multi-execution (D. Devriese and F. Piessens, "Noninterference through
// Secure Multi-Execution", IEEE Symposium on Security and Privacy 2010), used to compare: the
// run makes a call to a sink only if the script makes the same call without the labelled
// answers. docs/flow.md says what follows from that, and what does not.
package flow

import (
	"strings"
	"time"
)

// Label is a property of an answer.
type Label uint8

// The labels.
const (
	// Private answers must not leak: they must not reach public sinks.
	Private Label = iota
	// Untrusted answers must not steer: they must not cause or shape calls of critical sinks.
	Untrusted

	NumLabels = 2
)

// AllLabels has each label.
var AllLabels = [NumLabels]Label{Private, Untrusted}

// String returns the name of the label, as in the configuration.
func (l Label) String() string {
	if l == Untrusted {
		return "untrusted"
	}
	return "private"
}

// Sink returns what the sinks are called that care about the label.
func (l Label) Sink() string {
	if l == Untrusted {
		return "critical"
	}
	return "public"
}

// Labels is a set of labels. The zero value has none.
type Labels uint8

// Of returns the set of some labels.
func Of(list ...Label) Labels {
	var set Labels
	for _, l := range list {
		set |= 1 << l
	}
	return set
}

// Has reports whether the set has a label.
func (s Labels) Has(l Label) bool { return s&(1<<l) != 0 }

// String returns the names of the labels, "" for none.
func (s Labels) String() string {
	var names []string
	for _, l := range AllLabels {
		if s.Has(l) {
			names = append(names, l.String())
		}
	}
	return strings.Join(names, ", ")
}

// ParseLabels reads names of labels; "" is none. A name that is not known, as one of a later
// version, counts as all labels.
func ParseLabels(names []string) Labels {
	var set Labels
	for _, name := range names {
		switch name {
		case "":
		case Private.String():
			set |= Of(Private)
		case Untrusted.String():
			set |= Of(Untrusted)
		default:
			set |= Of(AllLabels[:]...)
		}
	}
	return set
}

// Names returns the names of the labels.
func (s Labels) Names() []string {
	if s == 0 {
		return nil
	}
	return strings.Split(s.String(), ", ")
}

// Action says what becomes of a call to a sink that a script does not make without labelled
// answers.
type Action string

// The actions. They are those of the configuration.
const (
	Deny   Action = "deny"   // it is not made, and the run ends
	Ask    Action = "ask"    // a person decides
	Report Action = "report" // it is made, and recorded
	Shadow Action = "shadow" // the call is made that the script makes without the answers
)

// Again says what becomes of calls to sinks in a session after the first denial.
type Again string

// The values of Again. They are those of the configuration.
const (
	AskAgain     Again = "ask"     // a person decides about each
	CompareAgain Again = "compare" // they are compared like those before
)

// Settings are those of [flow]; see docs/configuration.md.
type Settings struct {
	// Private and Untrusted are patterns of SERVER.TOOL for sources, Public and Critical for
	// sinks, and Reads for tools that only read.
	Private, Untrusted, Public, Critical, Reads []string
	// Trusted are patterns of servers whose readOnlyHint counts.
	Trusted []string
	Action  Action
	Again   Again
	// MaxSinkCalls is how many calls to sinks that care about labelled answers one run may
	// make, with the runs of saved tools in it.
	MaxSinkCalls int
	// MaxShadows is how many shadows there may be at a time, in the whole process.
	MaxShadows int
	// Timeout is how long the shadows of one run may take, without the time in which the run
	// itself goes on.
	Timeout time.Duration
	// Shapes are raw JSON Schemas of answers of tools without an outputSchema, by SERVER.TOOL.
	Shapes map[string][]byte
}

// The defaults of Settings.
const (
	DefaultMaxSinkCalls = 20
	DefaultMaxShadows   = 64
	DefaultTimeout      = 30 * time.Second
)
