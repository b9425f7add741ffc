package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// Tool is a listed tool of a server.
type Tool struct {
	Server, Name string
	Definition   []byte // raw
}

// Advice points out a setting that is probably a mistake, or weakens the protection.
type Advice struct {
	Kind AdviceKind
	// Object is the pattern, server or tool in question.
	Object, Text string
}

// AdviceKind is a kind of Advice.
type AdviceKind int

// The kinds.
const (
	// MatchesNothing: a pattern matches no tool, or no server.
	MatchesNothing AdviceKind = iota
	// KeepsSecrets: a server without labels both reads and writes, so a run can store a secret at
	// the server, and another run can send the secret. The proxy notices only an actual attempt.
	KeepsSecrets
	// Shapeless: a source has neither an outputSchema nor a shape.
	Shapeless
)

// lists returns the lists of patterns for tools, by their keys.
func (s *Settings) lists() []struct {
	Key  string
	List []string
} {
	return []struct {
		Key  string
		List []string
	}{{"private", s.Private}, {"untrusted", s.Untrusted}, {"public", s.Public}, {"critical", s.Critical}, {"reads", s.Reads}}
}

// AdviseServers returns the advice that needs no tools. servers are the configured servers.
func (s *Settings) AdviseServers(servers []string) (found []Advice) {
	nothing := func(key, pattern string) {
		found = append(found, Advice{MatchesNothing, pattern, fmt.Sprintf("flow.%s: there is no server for %q", key, pattern)})
	}
	for _, l := range s.lists() {
		for _, pattern := range l.List {
			server, _, ok := strings.Cut(pattern, ".")
			if ok && !slices.ContainsFunc(servers, func(name string) bool { return glob.Match(server, name) }) {
				nothing(l.Key, pattern)
			}
		}
	}
	for _, pattern := range s.Trusted {
		if !slices.ContainsFunc(servers, func(name string) bool { return glob.Match(pattern, name) }) {
			nothing("trusted", pattern)
		}
	}
	for _, l := range AllLabels {
		sources, sinks := s.Private, s.Public
		if l == Untrusted {
			sources, sinks = s.Untrusted, s.Critical
		}
		if len(sources) > 0 && len(sinks) == 0 {
			found = append(found, Advice{MatchesNothing, l.Sink(), fmt.Sprintf("flow.%s is empty, so that nothing is looked at for answers that are %s", l.Sink(), l)})
		}
	}
	return found
}

// Advise returns advice about tools, which are all tools of the servers that have listed theirs;
// complete says that all servers have.
func (s *Settings) Advise(tools []Tool, complete bool) (found []Advice) {
	rules := &Rules{Settings: *s, Definition: func(server, tool string) []byte {
		for _, t := range tools {
			if t.Server == server && t.Name == tool {
				return t.Definition
			}
		}
		return nil
	}}
	for _, l := range s.lists() {
		for _, pattern := range l.List {
			if complete && !slices.ContainsFunc(tools, func(t Tool) bool { return glob.Match(pattern, t.Server+"."+t.Name) }) {
				found = append(found, Advice{MatchesNothing, pattern, fmt.Sprintf("flow.%s: no tool matches %q", l.Key, pattern)})
			}
		}
	}
	type use struct{ reads, writes, labelled bool }
	var servers []string
	uses := map[string]*use{}
	for _, t := range tools {
		u := uses[t.Server]
		if u == nil {
			u = &use{}
			uses[t.Server], servers = u, append(servers, t.Server)
		}
		labels := rules.Source(t.Server, t.Name, nil)
		u.labelled = u.labelled || labels != 0
		if rules.ReadsOnly(t.Server, t.Name) {
			u.reads = true
		} else if !rules.Sinks(t.Server, t.Name).Has(Private) {
			u.writes = true
		}
		if labels != 0 && rules.Shape(t.Server, t.Name) == nil {
			found = append(found, Advice{Shapeless, t.Server + "." + t.Name, fmt.Sprintf("%s.%s has labelled answers, and neither an outputSchema nor a shape: a text stands in for the answers", t.Server, t.Name)})
		}
	}
	if len(s.Private) > 0 {
		for _, server := range servers {
			if u := uses[server]; u.reads && u.writes && !u.labelled {
				found = append(found, Advice{KeepsSecrets, server, fmt.Sprintf("server %q has no label, and can be written to and read: a secret that a client puts there itself, without a script, can be read and sent later", server)})
			}
		}
	}
	return found
}
