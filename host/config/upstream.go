package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// decodeUpstream reads one upstream and adds it to c.
func decodeUpstream(t *table, name string, c *Config) {
	u := Upstream{
		Name: name, Prefix: name + "__",
		Restart: RestartAlways, Isolation: Shared, Start: Eager, Protocol: Auto,
	}
	setDefaults(u.limits())
	t.boolean("disabled", &u.Disabled)
	t.lenient = u.Disabled || t.r.unset != nil
	if !u.Disabled && t.r.unset != nil {
		t.upstream = name
	}
	t.transport(&u)
	if u.Transport == Stdio {
		t.process(&u)
	} else {
		t.remote(&u)
	}
	if prefix, ok := t.str("prefix"); ok {
		u.Prefix = prefix
		if !prefixPattern.MatchString(prefix) {
			t.problem("prefix", "%s has to consist of letters, digits, _ and -", quoteWritten(t.node.fields["prefix"]))
		}
	}
	t.timeouts(&u)
	choice(t, "restart", &u.Restart, RestartAlways, RestartNever)
	choice(t, "isolation", &u.Isolation, Shared, PerSession)
	choice(t, "start", &u.Start, Eager, Lazy)
	choice(t, "protocol", &u.Protocol, Protocols()...)
	if u.Transport == LegacySSE && u.Protocol != Auto && u.Protocol != Legacy {
		t.problem("protocol", "is no revision with the transport sse (use http, or leave protocol out)")
	}
	u.Expose = t.strs("expose", t.pattern)
	u.Hide = t.strs("hide", t.pattern)
	choice(t, "pins", &u.Pins, PinModes()...)
	u.Probe = t.probe(&u)
	u.Sandbox = t.sandbox()
	t.close(upstreamAliases)
	c.Upstreams = append(c.Upstreams, u)
	for _, r := range u.References {
		if r.Kind == FromFile {
			c.secretFiles = append(slices.Clip(c.secretFiles), r.Path)
		}
	}
}

// timeouts reads how long requests may take.
func (t *table) timeouts(u *Upstream) {
	key := t.key(limits.RequestTotalTime.Key)
	t.limit(limitField{limits.RequestTime, &u.Timeout})
	u.MaxTimeout = max(u.MaxTimeout, u.Timeout)
	t.limit(limitField{limits.RequestTotalTime, &u.MaxTimeout})
	if u.MaxTimeout < u.Timeout {
		t.problem(key, "is below timeout, %s (raise it or lower timeout)", units.FormatDuration(u.Timeout))
	}
}

// processKeys are the settings of servers that we start, remoteKeys those of servers with
// an address.
var (
	processKeys = []string{"command", "args", "env", "cwd", "sandbox"}
	remoteKeys  = []string{"url", "headers", "oauth"}
)

// transport determines how the server is reached, and reports settings that contradict
// it.
func (t *table) transport(u *Upstream) {
	has := func(key string) bool { return t.node.fields[key] != nil }
	u.Transport = Stdio
	if has("url") {
		u.Transport = StreamableHTTP
	}
	switch {
	case !has("url") && !has("command"):
		command, url := `command = "…"`, `url = "https://…"`
		if t.r.json {
			command, url = `"command": "…"`, `"url": "https://…"`
		}
		t.problem("", "has neither command nor url (say what to start: %s; or what to connect to: %s)", command, url)
	case has("url") && has("command"):
		t.problem("url", "cannot be combined with command (leave one out: a server is either started or connected to)")
	}
	u.Detect = has("url") && !has("transport") && !(t.r.json && has("type"))
	t.transportKey(u, "transport")
	if t.r.json { // MCP hosts call it type
		t.transportKey(u, "type")
		if has("type") && has("transport") {
			t.problem("type", "cannot be combined with transport (leave one out: they mean the same)")
		}
	}
	foreign := remoteKeys
	if u.Transport != Stdio {
		foreign = processKeys
	}
	for _, key := range foreign {
		if has(key) && key != "command" && (has("url") || has("command")) { // otherwise a problem was reported above
			t.problem(key, "has no meaning for a server that is %s", u.Transport.reached())
		}
	}
	t.know(processKeys...)
	t.know(remoteKeys...)
}

// transportNames are the names that MCP hosts use for the transports, in lower case
// without separators.
var transportNames = map[string]Transport{
	"stdio": Stdio, "http": StreamableHTTP, "streamablehttp": StreamableHTTP, "sse": LegacySSE,
}

// transportKey reads the transport from a key and reports one that contradicts the
// server's command or address.
func (t *table) transportKey(u *Upstream, key string) {
	name, ok := t.str(key)
	if !ok {
		return
	}
	value := quoteWritten(t.node.fields[key])
	transport, ok := transportNames[strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))]
	switch {
	case !ok:
		t.problem(key, `%s is not a transport (there are "stdio", "http" and "sse")`, value)
	case (transport == Stdio) != (u.Transport == Stdio):
		t.problem(key, "%s does not fit a server that is %s", value, u.Transport.reached())
	default:
		u.Transport = transport
	}
}

func (t Transport) reached() string {
	if t == Stdio {
		return "started by a command"
	}
	return "reached at a url"
}

// choice sets *v to the value under a key if it is one of values.
func choice[S ~string](t *table, key string, v *S, values ...S) {
	text, ok := t.str(key)
	if !ok {
		return
	}
	names := make([]string, len(values))
	for i, value := range values {
		if S(text) == value {
			*v = value
			return
		}
		names[i] = `"` + string(value) + `"`
	}
	t.problem(key, "%s is unknown here (there are %s)", quoteWritten(t.node.fields[key]), strings.Join(names, " and "))
}

// process reads which command to start, and with what.
func (t *table) process(u *Upstream) {
	t.command(u)
	u.Args = t.args(u)
	u.Env = t.environment(u)
	if dir, ok := t.directory("cwd"); ok {
		u.Dir = dir
	}
}

// command reads the command itself.
func (t *table) command(u *Upstream) {
	command, ok := t.str("command")
	switch {
	case !ok:
		// get has reported it.
	case strings.TrimSpace(command) == "":
		t.problem("command", "is empty (say what to start)")
	case strings.HasPrefix(command, "~") || strings.ContainsAny(command, `/`+string(filepath.Separator)):
		u.Command = t.absolute("command", command)
	default:
		u.Command = command
	}
}

// args reads the arguments. An argument after an option such as --token is a secret.
func (t *table) args(u *Upstream) []string {
	option := ""
	return t.strs("args", func(key string, n *node) (string, bool) {
		arg, ok := t.expandFetched(u, argSetting(key), key, option, n)
		option = ""
		if strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
			option = arg
		}
		return arg, ok
	})
}

// environment reads the environment variables of the process.
func (t *table) environment(u *Upstream) map[string]string {
	env := t.sub("env")
	if env == nil {
		return nil
	}
	env.inherit(t)
	vars := make(map[string]string, len(env.node.keys))
	for _, name := range env.node.keys {
		n := env.node.fields[name]
		if name == "" || strings.ContainsAny(name, "=\x00") {
			env.problem("", "%s cannot be the name of a variable (it must not be empty or contain =)", fileValue(strconv.Quote(name)))
			continue
		}
		if !env.check(name, n, "a string", kindString) {
			continue
		}
		if value, ok := env.expandFetched(u, Setting{Key: envKey, Name: name}, name, name, n); ok {
			vars[name] = value
		}
	}
	return vars
}

// pattern reads one pattern for tool names.
func (t *table) pattern(key string, n *node) (string, bool) {
	pattern, ok := t.expandPublic(key, n)
	if !ok {
		return "", false
	}
	if !glob.Valid(pattern) {
		t.problem(key, "%s is not a pattern (* stands for any text, ? for one character, [a-z] for one out of a range)", quoteWritten(n))
		return "", false
	}
	return pattern, true
}
