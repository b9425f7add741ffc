package flowtable

import (
	"slices"
	"strings"
)

// A verdict says what a method makes of a case.
type verdict string

const (
	blocked   verdict = "blocked"   // the sinks got the same in both worlds
	progress  verdict = "progress"  // what they got in one world is how it began in the other
	through   verdict = "through"   // they got something else
	fine      verdict = "fine"      // a useful script did what it does without the method
	disturbed verdict = "disturbed" // it did not
)

// compare judges what sinks got in two worlds.
func compare(a, b []string) verdict {
	n := min(len(a), len(b))
	switch {
	case !slices.Equal(a[:n], b[:n]):
		return through
	case len(a) == len(b):
		return blocked
	}
	return progress
}

// unnoticed reports whether one run has sent less than the other to the sinks of a label that it
// had, and its session is not flagged: so that an agent could do the same again and again, one bit
// each time.
func unnoticed(label int, a, b *outcome) bool {
	if len(a.sinks(label)) > len(b.sinks(label)) {
		a, b = b, a
	}
	return len(a.sinks(label)) < len(b.sinks(label)) && !a.noticed && slices.Contains(a.had, labelNames[label])
}

// A filter returns how many calls to the sinks of a label a method lets through, given what
// happens without it. The run ends where one is denied.
type filter func(label int, events []event) int

// sessionLabels denies every sink after a labelled answer.
func sessionLabels(label int, events []event) (n int) {
	for _, e := range events {
		switch {
		case e.call == "" && e.labelled&(1<<label) != 0:
			return n
		case e.call != "" && e.sinks&(1<<label) != 0:
			n++
		}
	}
	return n
}

// taintLength is how many characters a call must have in common with a labelled answer.
const taintLength = 6

// substringTaint denies a sink with a text of which a part was in a labelled answer.
func substringTaint(label int, events []event) (n int) {
	parts := map[string]bool{}
	for _, e := range events {
		switch {
		case e.call == "" && e.labelled&(1<<label) != 0:
			for _, text := range e.texts {
				for i := 0; i+taintLength <= len(text); i++ {
					parts[text[i:i+taintLength]] = true
				}
			}
		case e.call != "" && e.sinks&(1<<label) != 0:
			text := strings.Join(e.texts, "\x00")
			for i := 0; i+taintLength <= len(text); i++ {
				if parts[text[i:i+taintLength]] {
					return n
				}
			}
			n++
		}
	}
	return n
}

// simulate judges a case by a method that is no part of the product, from what happens without
// any: a and b.
func (f filter) simulate(c *testCase, a, b *outcome) verdict {
	sinksA, sinksB := a.sinks(c.label()), b.sinks(c.label())
	nA, nB := f(c.label(), a.events), f(c.label(), b.events)
	if c.attack {
		return compare(sinksA[:nA], sinksB[:nB])
	}
	for label := range labels { // a useful script has to do with both
		for _, o := range []*outcome{a, b} {
			if f(label, o.events) < len(o.sinks(label)) {
				return disturbed
			}
		}
	}
	return fine
}

// judge judges a case by what has happened in both worlds, with the product and without it.
func judge(c *testCase, a, b, plainA, plainB *outcome) verdict {
	if c.attack {
		return compare(a.sinks(c.label()), b.sinks(c.label()))
	}
	for _, both := range [][2]*outcome{{a, plainA}, {b, plainB}} {
		with, without := both[0], both[1]
		same := with.result == without.result && with.failed == without.failed
		for label := range labels {
			same = same && slices.Equal(with.sinks(label), without.sinks(label))
		}
		if !same {
			return disturbed
		}
	}
	return fine
}
