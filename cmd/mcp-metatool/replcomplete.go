package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// completions holds what names and members can be completed to.
type completions struct {
	words   []string            // names and keywords
	members map[string][]string // by name: .member or ["member"]
}

// These match, at the end of a line, a word and a name with the beginning of a member,
// but not names that are members themselves.
var (
	wordAtEnd   = lazyregexp.New(`(?:^|[^\w.\])"'])([A-Za-z_]\w*)$`)
	memberAtEnd = lazyregexp.New(`(?:^|[^\w.\])"'])([A-Za-z_]\w*)(\.\w*|\["?[^"\]]*)$`)
	commandOnly = lazyregexp.New(`^\.\w*$`)
)

// complete returns the text that can be added to a line without ambiguity, and the
// choices if there are several. If both are empty, the line cannot be completed.
func (c completions) complete(before string) (add string, choice []string) {
	var typed string
	var all []string
	if m := memberAtEnd.FindStringSubmatch(before); m != nil {
		typed, all = m[2], c.members[m[1]]
	} else if m := wordAtEnd.FindStringSubmatch(before); m != nil {
		typed, all = m[1], c.words
	} else if commandOnly.MatchString(before) {
		typed, all = before, replCommands
	}
	var fit []string
	for _, w := range all {
		if typed != "" && strings.HasPrefix(w, typed) {
			fit = append(fit, w)
		}
	}
	slices.Sort(fit)
	fit = slices.Compact(fit)
	if len(fit) == 0 {
		return "", nil
	}
	add = strings.TrimPrefix(commonPrefix(fit[0], fit[len(fit)-1]), typed)
	if add != "" || len(fit) == 1 {
		return add, nil
	}
	return "", fit
}

// commonPrefix returns the common prefix of two texts, in whole characters.
func commonPrefix(a, b string) string {
	n := 0
	for i, c := range a {
		if !strings.HasPrefix(b[min(i, len(b)):], string(c)) {
			break
		}
		n = i + len(string(c))
	}
	return a[:n]
}

// notCompleted are reserved words that no script can use.
var notCompleted = []string{"assert", "async", "await", "class", "del", "global", "import", "is", "load", "nonlocal", "with", "yield"}

// complete completes the line before the cursor.
func (r *repl) complete(before string) (add string, choice []string) {
	c := completions{members: r.host.ScriptNames()}
	for _, w := range abi.ReservedNames() {
		if !slices.Contains(notCompleted, w) {
			c.words = append(c.words, w)
		}
	}
	for server := range c.members {
		c.words = append(c.words, server)
	}
	c.words = append(c.words, r.state.names...)
	for name, members := range r.moduleMembers() {
		c.members[name] = members
	}
	for name, v := range r.state.values {
		c.members[name] = membersOf(v)
	}
	return c.complete(before)
}

// membersOf returns the keys of an object that can be written after a dot.
func membersOf(v replValue) []string {
	if !wire.IsObject([]byte(v.JSON)) {
		return nil
	}
	var object map[string]json.RawMessage
	if jsonvalue.Unmarshal([]byte(v.JSON), &object) != nil {
		return nil
	}
	var keys []string
	for k := range object {
		if k != "" && abi.Ident(k) == k {
			keys = append(keys, "."+k)
		}
	}
	return keys
}

// moduleMembers returns the members of the modules of the language. It determines them
// once.
func (r *repl) moduleMembers() map[string][]string {
	if r.modules != nil {
		return r.modules
	}
	const most = 2 * time.Second // while the sandbox is being compiled, the result is empty
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	arguments := []byte(`{"code":"return {\"json\": dir(json), \"math\": dir(math), \"log\": dir(log), \"content\": dir(content)}"}`)
	raw, err := callTool(ctx, r.client, "eval_starlark", arguments, nil)
	if err != nil {
		return nil
	}
	var names map[string][]string
	if jsonvalue.Unmarshal(readResult(raw).value, &names) != nil {
		return nil
	}
	r.modules = map[string][]string{}
	for module, members := range names {
		for _, m := range members {
			r.modules[module] = append(r.modules[module], "."+m)
		}
	}
	return r.modules
}
