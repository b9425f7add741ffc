package config

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)
)

// What other programs call settings of ours, in lower case without separators.
var (
	topAliases = map[string]string{
		"mcpservers": "upstream", "servers": "upstream", "upstreamservers": "upstream",
	}
	executionAliases = map[string]string{"enabledebug": "debug"}
	upstreamAliases  = map[string]string{
		"cmd": "command", "environment": "env", "dir": "cwd", "workingdirectory": "cwd", "enabled": "disabled",
	}
)

// decode reads the tree of a file into c.
func decode(r *reader, root *node, c *Config) {
	top := &table{r: r, node: root}
	if !top.check("", root, top.tableType(), kindTable) {
		return
	}
	top.duration(top.key("startup_wait"), &c.StartupWait, 0, maxStartupWait)
	size := uint64(c.MaxMessage)
	top.size(top.key("max_message"), &size, minMaxMessage, maxMaxMessage)
	c.MaxMessage = int64(size)
	decodeExecution(top.sub("execution"), c)
	decodeStore(top.sub("store"), c)
	if r.json {
		decodeServersJSON(top, c)
		top.close(map[string]string{"upstream": "upstreamServers", "upstreams": "upstreamServers", "servers": "mcpServers"})
	} else {
		decodeServersTOML(top, c)
		top.close(topAliases)
	}
	checkTogether(r, c.Upstreams)
}

var defaultExecution = Execution{
	Timeout: DefaultTimeout, MaxMemory: DefaultMaxMemory, MaxFuel: DefaultMaxFuel, MaxCalls: DefaultMaxCalls,
	MaxArguments: DefaultMaxArguments, MaxAnswer: DefaultMaxAnswer, MaxResult: DefaultMaxResult, MaxLogs: DefaultMaxLogs,
	MaxQueued: DefaultMaxQueued,
}

// decodeExecution reads the limits of composite calls, of each and of all.
func decodeExecution(t *table, c *Config) {
	if t == nil {
		return
	}
	t.duration("timeout", &c.Execution.Timeout, minTimeout, maxTimeout)
	t.size(t.key("max_memory"), &c.Execution.MaxMemory, minMaxMemory, maxMaxMemory)
	t.number(t.key("max_fuel"), &c.Execution.MaxFuel, minMaxFuel, maxMaxFuel)
	t.count(t.key("max_calls"), &c.Execution.MaxCalls, 1, maxMaxCalls)
	t.size(t.key("max_arguments"), &c.Execution.MaxArguments, minMessageSize, maxMessageSize)
	t.size(t.key("max_answer"), &c.Execution.MaxAnswer, minMessageSize, maxMessageSize)
	t.size(t.key("max_result"), &c.Execution.MaxResult, minMessageSize, maxMessageSize)
	t.size(t.key("max_logs"), &c.Execution.MaxLogs, minMessageSize, maxMessageSize)
	t.count(t.key("max_concurrent"), &c.Execution.MaxConcurrent, 1, maxConcurrent)
	t.count(t.key("max_queued"), &c.Execution.MaxQueued, 1, maxMaxQueued)
	if t.r.json {
		t.boolean("enableDebug", &c.Debug)
		t.close(map[string]string{"debug": "enableDebug"})
		return
	}
	t.boolean("debug", &c.Debug)
	t.close(executionAliases)
}

// decodeStore reads where saved tools live.
func decodeStore(t *table, c *Config) {
	if t == nil {
		return
	}
	if dir, ok := t.directory("dir"); ok {
		c.Store.Dir = dir
	}
	t.close(nil)
}

// directory is the absolute path under a key: ~ is the home directory, and what
// is relative is so to the directory of the file.
func (t *table) directory(key string) (string, bool) {
	dir, ok := t.str(key)
	if !ok {
		return "", false
	}
	if dir == "" {
		t.problem(key, "is empty (name a directory, or leave it out)")
		return "", false
	}
	return t.absolute(key, dir), true
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

// decodeServersJSON reads the specification's array "upstreamServers", and the
// object "mcpServers" as MCP hosts have it; the former may be an object too.
func decodeServersJSON(top *table, c *Config) {
	const key = "upstreamServers"
	n := top.get(key, "an array of objects", kindArray, kindTable)
	if n != nil && n.kind == kindTable {
		decodeServersByName(top, key, c)
	} else if n != nil {
		for i, item := range n.items {
			itemKey := fmt.Sprintf("%s[%d]", key, i)
			if !top.check(itemKey, item, "an object", kindTable) {
				continue
			}
			t := &table{r: top.r, node: item, prefix: itemKey + ": "}
			decodeUpstream(t, t.name(), c)
		}
	}
	decodeServersByName(top, "mcpServers", c)
}

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
		t := &table{r: top.r, node: n, prefix: fmt.Sprintf("upstream %q: ", name)}
		if !t.check("", n, t.tableType(), kindTable) {
			continue
		}
		t.checkName(name)
		decodeUpstream(t, name, c)
	}
}

// name reads the name of an upstream out of its table, "" if it has none, and
// calls the table by it from then on. It is not expanded: names are keys.
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

// decodeUpstream reads one upstream and adds it to c.
func decodeUpstream(t *table, name string, c *Config) {
	u := Upstream{Name: name, Prefix: name + "__", Timeout: DefaultUpstreamTimeout}
	t.boolean("disabled", &u.Disabled)
	t.lenient = u.Disabled
	t.command(&u)
	u.Args = t.args()
	u.Env = t.environment()
	if dir, ok := t.directory("cwd"); ok {
		u.Dir = dir
	}
	if prefix, ok := t.str("prefix"); ok {
		u.Prefix = prefix
		if !prefixPattern.MatchString(prefix) {
			t.problem("prefix", "%s has to consist of letters, digits, _ and -", quoteWritten(t.node.fields["prefix"]))
		}
	}
	t.duration("timeout", &u.Timeout, minTimeout, maxTimeout)
	u.Expose = t.strs("expose", t.pattern)
	u.Hide = t.strs("hide", t.pattern)
	if t.r.json {
		if kind, ok := t.str("type"); ok && kind != "stdio" {
			t.problem("type", "%s is not supported, only \"stdio\" is", quoteWritten(t.node.fields["type"]))
		}
	}
	t.close(upstreamAliases)
	c.Upstreams = append(c.Upstreams, u)
}

// checkName reports a name that cannot be one.
func (t *table) checkName(name string) {
	switch {
	case !namePattern.MatchString(name):
		t.problem("", "the name has to be 1 to 32 letters, digits, _ and -")
	case abi.Reserved(abi.Ident(name)):
		t.problem("", "scripts would know it as %s, which means something else there (choose another name)", abi.Ident(name))
	}
}

// command reads what to start.
func (t *table) command(u *Upstream) {
	command, ok := t.str("command")
	switch {
	case !ok && t.node.fields["command"] == nil:
		example := `command = "…"`
		if t.r.json {
			example = `"command": "…"`
		}
		t.problem("", "has no command (say what to start: %s)", example)
	case !ok:
		// Reported.
	case strings.TrimSpace(command) == "":
		t.problem("command", "is empty (say what to start)")
	case strings.HasPrefix(command, "~") || strings.ContainsAny(command, `/`+string(filepath.Separator)):
		u.Command = t.absolute("command", command)
	default:
		u.Command = command
	}
}

// args reads the arguments. One that follows an option such as --token is a
// secret.
func (t *table) args() []string {
	option := ""
	return t.strs("args", func(key string, n *node) (string, bool) {
		arg, ok := t.private(key, option, n)
		option = ""
		if strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
			option = arg
		}
		return arg, ok
	})
}

// environment reads the variables for the process.
func (t *table) environment() map[string]string {
	env := t.sub("env")
	if env == nil {
		return nil
	}
	env.lenient = t.lenient
	vars := make(map[string]string, len(env.node.keys))
	for _, name := range env.node.keys {
		n := env.node.fields[name]
		if name == "" || strings.ContainsAny(name, "=\x00") {
			env.problem("", "%q cannot be the name of a variable", name)
			continue
		}
		if !env.check(name, n, "a string", kindString) {
			continue
		}
		if value, ok := env.private(name, name, n); ok {
			vars[name] = value
		}
	}
	return vars
}

// pattern reads one pattern for tool names.
func (t *table) pattern(key string, n *node) (string, bool) {
	pattern, ok := t.public(key, n)
	if !ok {
		return "", false
	}
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		t.problem(key, "%s is not a pattern (* stands for any text, ? for one character, [a-z] for one out of a range)", quoteWritten(n))
		return "", false
	}
	return pattern, true
}

// checkTogether reports what is wrong with the upstreams as a whole.
func checkTogether(r *reader, upstreams []Upstream) {
	names := map[string]bool{}
	byIdent := map[string]string{}
	for i := range upstreams {
		u := &upstreams[i]
		t := &table{r: r, prefix: fmt.Sprintf("upstream %q: ", u.Name)}
		if u.Name == "" {
			continue // reported, as is every other name that cannot be one
		}
		if names[u.Name] {
			t.problem("", "there are two of that name")
			continue
		}
		names[u.Name] = true
		if u.Disabled {
			continue
		}
		ident := abi.Ident(u.Name)
		if other, taken := byIdent[ident]; taken {
			t.problem("", "scripts would know it as %s, and upstream %q too (rename one of them)", ident, other)
		}
		byIdent[ident] = u.Name
	}
}
