package config

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

var (
	namePattern   = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)
	prefixPattern = lazyregexp.New(`^[A-Za-z0-9_-]*$`)
)

// The names that other programs use for these settings, in lower case without separators.
var (
	topAliases = map[string]string{
		"mcpservers": "upstream", "servers": "upstream", "upstreamservers": "upstream",
	}
	executionAliases = map[string]string{"enabledebug": "debug"}
	upstreamAliases  = map[string]string{
		"cmd": "command", "environment": "env", "dir": "cwd", "workingdirectory": "cwd", "enabled": "disabled",
		"serverurl": "url", "httpurl": "url", "baseurl": "url", "uri": "url", "endpoint": "url",
		"httpheaders": "headers", "header": "headers", "auth": "oauth", "maxtotaltimeout": "max_timeout",
	}
)

// decode reads the tree of a file into c.
func decode(r *reader, root *node, c *Config) {
	top := &table{r: r, node: root}
	if top.check("", root, top.tableType(), kindTable) {
		decodeInto(top, c)
	}
}

// decodeInto reads a file's top level into c.
func decodeInto(top *table, c *Config) {
	r := top.r
	top.limits("", c.limits())
	choice(top, top.key("log_format"), &c.LogFormat, LogFormats()...)
	decodeExecution(top.sub("execution"), c)
	decodeStore(top.sub("store"), c)
	decodePins(top, c)
	decodeHTTP(top.sub("http"), c)
	decodeJournal(top.sub("journal"), c)
	decodeTelemetry(top.sub("telemetry"), c)
	decodeBuiltins(top.sub("builtins"), c)
	decodeApproval(top.sub("approval"), c)
	decodePlan(top.sub("plan"), c)
	decodeDurable(top.sub("durable"), c)
	decodeFlow(top.sub("flow"), c)
	if r.json {
		decodeServersJSON(top, c)
	} else {
		decodeServersTOML(top, c)
	}
	decodePolicy(top, c) // its warnings are about servers
	if r.json {
		top.hosts = top.node.fields[hostsKey] != nil
		top.close(map[string]string{"upstream": "upstreamServers", "upstreams": "upstreamServers", "servers": "mcpServers"})
	} else {
		top.close(topAliases)
	}
	c.Upstreams = checkUnique(r, c.Upstreams)
}

// decodeExecution reads the limits of each composite call and of all of them together.
func decodeExecution(t *table, c *Config) {
	if t == nil {
		return
	}
	t.limits("execution", c.limits())
	choice(t, t.key("tool_calls"), &c.Execution.ToolCalls, ToolCallsShort, ToolCallsFull, ToolCallsNone)
	if t.r.json {
		t.boolean("enableDebug", &c.Debug)
		t.close(map[string]string{"debug": "enableDebug"})
		return
	}
	t.boolean("debug", &c.Debug)
	t.close(executionAliases)
}

// directory returns the absolute path of a directory under a key; see location.
func (t *table) directory(key string) (string, bool) { return t.location(key, "a directory") }

// file returns the absolute path of a file under a key; see location.
func (t *table) file(key string) (string, bool) { return t.location(key, "a file") }

// location returns the absolute path under a key. A leading ~ is the home directory; a
// relative path is relative to the directory of the configuration file.
func (t *table) location(key, what string) (string, bool) {
	name, ok := t.str(key)
	if !ok {
		return "", false
	}
	if name == "" {
		t.problem(key, "is empty (name %s, or leave it out)", what)
		return "", false
	}
	return t.absolute(key, name), true
}

// absolute makes a path absolute.
func (t *table) absolute(key, name string) string {
	name, err := expandHome(name, t.r.home)
	if err != nil {
		t.problem(key, "%v", err)
		return ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.r.base, name)
	}
	return filepath.Clean(name)
}

// decodeServersTOML reads the tables [upstream.NAME].
func decodeServersTOML(top *table, c *Config) {
	decodeServersByName(top, "upstream", c)
}

// decodeServersJSON reads the specification's array "upstreamServers", which may also be
// an object, and the object "mcpServers" that MCP hosts use.
func decodeServersJSON(top *table, c *Config) {
	const key = "upstreamServers"
	n := top.get(key, "an array of objects", kindArray, kindTable)
	if n != nil && n.kind == kindTable {
		decodeServersByName(top, key, c)
	} else if n != nil {
		for i, item := range n.items {
			itemKey := fmt.Sprintf("%s[%d]", key, i)
			top.r.entry(c, func() {
				if top.check(itemKey, item, "an object", kindTable) {
					t := &table{r: top.r, node: item, prefix: itemKey + ": "}
					decodeUpstream(t, t.name(), c)
				}
			})
		}
	}
	decodeServersByName(top, hostsKey, c)
}

// hostsKey is the key under which MCP hosts list their servers.
const hostsKey = "mcpServers"

// decodeServersByName reads a table of upstreams.
func decodeServersByName(top *table, key string, c *Config) {
	want := top.tableType()
	if !top.r.json {
		want = "tables [upstream.NAME]"
	}
	servers := top.get(key, want, kindTable)
	if servers == nil {
		return
	}
	for _, name := range servers.keys {
		n := servers.fields[name]
		t := &table{r: top.r, node: n, prefix: fmt.Sprintf("upstream %q: ", name), hosts: key == hostsKey}
		top.r.entry(c, func() {
			if t.check("", n, t.tableType(), kindTable) {
				t.checkName(name)
				decodeUpstream(t, name, c)
			}
		})
	}
}

// name reads the name of an upstream from its table, "" if it has none. Later messages
// about the table contain it. Variables in it are not expanded, because names are keys.
func (t *table) name() string {
	n := t.get("name", "a string", kindString)
	if n == nil {
		if t.node.fields["name"] == nil {
			t.problem("", `has no name (give it one: "name": "github")`)
		}
		return ""
	}
	t.prefix = fmt.Sprintf("upstream %q: ", n.text)
	t.checkName(n.text)
	return n.text
}

// checkName reports an invalid name.
func (t *table) checkName(name string) {
	switch {
	case !namePattern.MatchString(name):
		t.problem("", "the name has to be 1 to 32 letters, digits, _ and -")
	case strings.EqualFold(name, "builtin"):
		t.problem("", "rules and patterns for built-in tools begin with builtin (choose another name)")
	case abi.Reserved(abi.Ident(name)):
		t.problem("", "scripts would know it as %s, which means something else there (choose another name)", abi.Ident(name))
	}
}

// checkUnique reports upstreams whose names, or the names under which scripts know them,
// are not unique. It returns the upstreams without those, if problems are tolerated.
func checkUnique(r *reader, upstreams []Upstream) []Upstream {
	names := map[string]bool{}
	byIdent := map[string]string{}
	doubtful := func(u *Upstream) bool {
		t := &table{r: r, prefix: fmt.Sprintf("upstream %q: ", u.Name)}
		if u.Name == "" {
			return false // an invalid name has been reported
		}
		if names[u.Name] {
			t.problem("", "the name is used twice")
			return true
		}
		names[u.Name] = true
		if u.Disabled {
			return false
		}
		ident := abi.Ident(u.Name)
		other, taken := byIdent[ident]
		if taken {
			t.problem("", "scripts would know it as %s, and upstream %q too (rename one of them)", ident, other)
		} else {
			byIdent[ident] = u.Name
		}
		return taken
	}
	before := len(r.problems)
	var unique []Upstream
	for i := range upstreams {
		if !doubtful(&upstreams[i]) || !r.tolerate {
			unique = append(unique, upstreams[i])
		}
	}
	if r.tolerate {
		r.leftOut = append(r.leftOut, r.problems[before:]...)
		r.problems = r.problems[:before]
	}
	return unique
}
