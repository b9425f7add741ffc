package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// UnknownName is a name in a rule that nothing has.
type UnknownName struct {
	Rule string
	Name string   // as the rule has it
	Near []string // names that may be meant, in the same form
}

func (u UnknownName) String() string {
	text := fmt.Sprintf("policy rule %q: there is no %s", u.Rule, u.Name)
	if len(u.Near) > 0 {
		text += fmt.Sprintf(" (did you mean %s?)", strings.Join(u.Near, ", "))
	}
	return text
}

// UnknownTools returns those patterns of a rule that name a tool which its server does not
// have. tools returns the names of a server's tools; known is false if they are not known.
func UnknownTools(rule string, patterns []string, tools func(server string) (names []string, known bool)) []UnknownName {
	var found []UnknownName
	for _, target := range patterns {
		server, name, ok := strings.Cut(target, ".")
		if !ok || strings.ContainsAny(target, wildcards) {
			continue
		}
		names, known := tools(server)
		if !known || slices.Contains(names, name) {
			continue
		}
		near := nearest.Names(name, names)
		for i, n := range near {
			near[i] = server + "." + n
		}
		found = append(found, UnknownName{rule, target, near})
	}
	return found
}

// UnknownClients returns those patterns of a rule that match no name of a token. The rule is
// still for clients without a token that call themselves so.
func UnknownClients(rule string, patterns, tokens []string) []UnknownName {
	var found []UnknownName
	for _, client := range patterns {
		if !slices.ContainsFunc(tokens, newPatterns([]string{client}).matchName) {
			found = append(found, UnknownName{rule, client, nearest.Names(client, tokens)})
		}
	}
	return found
}
