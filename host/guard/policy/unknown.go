package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// UnknownName is a name in a rule without an object of the name.
type UnknownName struct {
	Rule string
	Name string   // as in the rule
	Near []string // similar names, in the same form
}

func (u UnknownName) String() string {
	text := fmt.Sprintf("policy rule %q: there is no %s", u.Rule, u.Name)
	if len(u.Near) > 0 {
		text += fmt.Sprintf(" (did you mean %s?)", strings.Join(u.Near, ", "))
	}
	return text
}

// UnknownTools returns the patterns of a rule for tools unknown to their servers. tools returns the
// names of a server's tools; known is false if the names are not known.
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

// UnknownClients returns the patterns of a rule that match no name of a token. The rule still
// applies to clients without a token that call themselves so.
func UnknownClients(rule string, patterns, tokens []string) []UnknownName {
	var found []UnknownName
	for _, client := range patterns {
		if !slices.ContainsFunc(tokens, newPatterns([]string{client}).matchName) {
			found = append(found, UnknownName{rule, client, nearest.Names(client, tokens)})
		}
	}
	return found
}
