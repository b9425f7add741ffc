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

// UnknownTools returns the tools that rules name and that their servers do not have. tools
// returns the names of a server's tools; known is false if they are not known.
func UnknownTools(rules []Rule, tools func(server string) (names []string, known bool)) []UnknownName {
	var found []UnknownName
	for _, r := range rules {
		for _, target := range r.Tools {
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
			found = append(found, UnknownName{r.Name, target, near})
		}
	}
	return found
}

// UnknownClients returns the clients that rules name and that no token has. Such a rule is
// still for clients without a token that call themselves so.
func UnknownClients(rules []Rule, tokens []string) []UnknownName {
	var found []UnknownName
	for _, r := range rules {
		for _, client := range r.Clients {
			if !slices.ContainsFunc(tokens, newPatterns([]string{client}).matchName) {
				found = append(found, UnknownName{r.Name, client, nearest.Names(client, tokens)})
			}
		}
	}
	return found
}
