package policy

import (
	"slices"
	"strings"
)

// Covered returns the rules that can never decide, by their indices, with the earlier rule that
// decides in their place. Only patterns are compared: an earlier rule without a condition matches
// every request of the rule, and of all its clients.
func (p *Policy) Covered() map[int]int {
	covered := map[int]int{}
	for i, later := range p.rules {
		if first := slices.IndexFunc(p.rules[:i], func(r *rule) bool { return r.covers(later) }); first >= 0 {
			covered[i] = first
		}
	}
	return covered
}

// covers reports whether r decides about every request of the other rule. covers does not find all
// such rules.
func (r *rule) covers(other *rule) bool {
	if r.condition != nil || r.Clients != nil && (other.Clients == nil || !allCovered(r.Clients, other.Clients)) {
		return false
	}
	if r.everything || other.everything {
		return r.everything
	}
	// A rule that allows is only for URIs that match in all their forms.
	uris := r.Action != Allow || other.Action == Allow
	return allCovered(r.Tools, other.Tools) && allCovered(r.Prompts, other.Prompts) &&
		(len(other.Resources) == 0 || uris && allCovered(r.Resources, other.Resources)) &&
		(len(other.Completions) == 0 || uris && allCovered(r.Completions, other.Completions))
}

// allCovered reports whether every text that matches another pattern also matches a pattern of all.
func allCovered(all, others []string) bool {
	return !slices.ContainsFunc(others, func(other string) bool {
		return !slices.ContainsFunc(all, func(p string) bool { return patternCovers(p, other) })
	})
}

func patternCovers(pattern, other string) bool {
	if pattern == other {
		return true
	}
	at := strings.IndexAny(other, wildcards)
	if at < 0 { // the pattern matches a single text
		return newPatterns([]string{pattern}).matchName(other)
	}
	begin, rest, _ := strings.Cut(pattern, "*")
	return rest == "" && len(begin) == len(pattern)-1 && !strings.ContainsAny(begin, wildcards) && strings.HasPrefix(other[:at], begin)
}
