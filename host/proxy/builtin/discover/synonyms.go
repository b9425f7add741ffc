package discover

import "slices"

// synonymGroups are words with nearly the same meaning in tool names. A tool found by a synonym
// ranks below a tool with the word itself.
var synonymGroups = [][]string{
	{"create", "add", "new", "make"},
	{"delete", "remove", "erase", "destroy"},
	{"search", "find", "query", "lookup"},
	{"get", "fetch", "read", "retrieve", "show", "view"},
	{"list", "enumerate", "browse"},
	{"update", "edit", "modify", "change"},
	{"send", "post"},
	{"execute", "run", "exec"},
	{"rename", "move"},
	{"directory", "folder", "dir"},
	{"repository", "repo"},
	{"pr", "pull"},
	{"message", "msg"},
	{"email", "mail"},
	{"image", "picture", "photo"},
	{"document", "doc"},
	{"ticket", "issue", "bug"},
	{"config", "configuration", "setting"},
	{"user", "member", "person", "people"},
	{"database", "db"},
	{"weather", "forecast"},
}

// synonyms maps a stem to the other stems in the same group.
var synonyms = func() map[string][]string {
	all := map[string][]string{}
	for _, group := range synonymGroups {
		for _, word := range group {
			for _, other := range group {
				if s, o := stem(word), stem(other); s != o && !slices.Contains(all[s], o) {
					all[s] = append(all[s], o)
				}
			}
		}
	}
	return all
}()
