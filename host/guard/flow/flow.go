// Package flow is the domain of information flow: the labels of answers, the calls (sinks) that
// care about labels, and the stand-ins for labelled answers when a script runs a second time
// without them. Begin with [Settings] and [Rules]. Package host/script/compose/shadow runs the
// shadows; this package does not know the sandbox.
//
// The method is secure multi-execution (D. Devriese and F. Piessens, IEEE Symposium on Security and
// Privacy 2010), used to compare: the run makes a call to a sink only if the script makes the same
// call without the labelled answers. docs/flow.md has the guarantees and their limits.
package flow

import (
	"bytes"
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

// Sink returns the name of the sinks that care about the label.
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

// ParseLabels reads names of labels; "" is none. An unknown name, for example of a later version,
// counts as all labels.
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

// Action is the fate of a call to a sink that a script does not make without labelled answers.
type Action string

// The actions, as in the configuration.
const (
	Deny   Action = "deny"   // the call is not made, and the run ends
	Ask    Action = "ask"    // a person decides
	Report Action = "report" // the call is made, and recorded
	Shadow Action = "shadow" // the call of the script without the answers is made instead
)

// Again is the fate of calls to sinks in a session after the first denial.
type Again string

// The values of Again, as in the configuration.
const (
	AskAgain     Again = "ask"     // a person decides about each
	CompareAgain Again = "compare" // later calls are compared like the calls before the denial
)

// Settings are the keys of [flow]; see docs/configuration.md.
type Settings struct {
	// Private and Untrusted are patterns of SERVER.TOOL for sources, Public and Critical for sinks,
	// and Reads for tools that only read.
	Private, Untrusted, Public, Critical, Reads []string
	// Trusted are patterns of servers whose readOnlyHint counts.
	Trusted []string
	Action  Action
	Again   Again
	// MaxSinkCalls is how many calls a run, with its runs of saved tools, may make to sinks that
	// care about labelled answers.
	MaxSinkCalls int
	// MaxShadows bounds the shadows at a time, in the whole process.
	MaxShadows int
	// Timeout bounds the time of the shadows of a run, without the time in which the run itself
	// goes on.
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

// Call is a call as sent to its server, with the form of answer that the script wants.
type Call struct {
	Server, Tool string  // real names
	Arguments    []byte  // raw JSON object
	Meta         []byte  // raw JSON object: the _meta of the request; nil for none
	Timeout      float64 // the call's own, in seconds; 0 for none
	Raw          bool    // the script gets the whole result
}

// Difference returns the differing part of two calls: "tool", "arguments", "_meta", "timeout" or
// "form"; "" for equal calls. Equal calls send the same bytes to the server: the order of members
// and the notation of a number can carry a secret.
func (c *Call) Difference(other *Call) string {
	switch {
	case c.Server != other.Server || c.Tool != other.Tool:
		return "tool"
	case !bytes.Equal(c.Arguments, other.Arguments):
		return "arguments"
	case !bytes.Equal(c.Meta, other.Meta):
		return "_meta"
	case c.Timeout != other.Timeout:
		return "timeout"
	case c.Raw != other.Raw: // the answer would show which of the two the script is
		return "form"
	}
	return ""
}
