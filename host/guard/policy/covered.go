package policy

import (
	"slices"
	"strings"
)

// Covered returns which rules can never decide, by their indices, with the earlier rule that
// decides in their place. It only finds what the patterns show: that one earlier rule without
// a condition is about everything that the rule is about, and for all its clients.
func (p *Policy) Covered() map[int]int {
	covered := map[int]int{}
	for i, later := range p.rules {
		if first := slices.IndexFunc(p.rules[:i], func(r *rule) bool { return r.covers(later) }); first >= 0 {
			covered[i] = first
		}
	}
	return covered
}

// covers reports whether r decides about every request for which the other rule is. Not all
// such rules are found.
func (r *rule) covers(other *rule) bool {
	if r.condition != nil || r.Clients != nil && (other.Clients == nil || !allCovered(r.Clients, other.Clients)) {
		return false
	}
	if r.everything || other.everything {
		return r.everything
	}
	// A rule that allows is only for URIs that it matches in all their forms.
	uris := r.Action != Allow || other.Action == Allow
	return allCovered(r.Tools, other.Tools) && allCovered(r.Prompts, other.Prompts) &&
		(len(other.Resources) == 0 || uris && allCovered(r.Resources, other.Resources)) &&
		(len(other.Completions) == 0 || uris && allCovered(r.Completions, other.Completions))
}

// allCovered reports whether whatever one of the other patterns matches is matched by one of
// the patterns.
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
	if at < 0 { // it matches one text
		return newPatterns([]string{pattern}).matchName(other)
	}
	begin, rest, _ := strings.Cut(pattern, "*")
	return rest == "" && len(begin) == len(pattern)-1 && !strings.ContainsAny(begin, wildcards) && strings.HasPrefix(other[:at], begin)
}
