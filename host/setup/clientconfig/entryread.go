package clientconfig

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// entry is the entry of a server during reading. A read key becomes known; all other keys are
// reported.
type entry struct {
	*object
	file   File
	sys    *System
	server *Server
	text   translator
	known  map[string]bool
}

func (e *entry) note(format string, args ...any) { e.text.note(format, args...) }

// hostKeys are keys for the host only. They are left out without a warning.
var hostKeys = []string{
	"name", "description", "source", "gallery", "version", "registryUrl", "icon", "note", "comment",
	"startup_timeout_sec", "startup_timeout_ms", "required", "supports_parallel_tool_calls", "enable_all_tools",
}

// approvalKeys are keys with which a host decides about calls of this server's tools.
var approvalKeys = []string{"autoApprove", "alwaysAllow", "default_tools_approval_mode", "tools", "tool_permissions", "trust"}

// read fills the server.
func (e *entry) read() {
	e.know(hostKeys...)
	s := e.server
	if e.file.Host.Name == "zed" && e.fields["source"] == "extension" || e.fields["settings"] != nil && e.fields["command"] == nil {
		s.Problem = "belongs to an extension of the host, which knows how to start it (give its command to: mcp-metatool add)"
		return
	}
	e.transport()
	if s.Problem != "" {
		return
	}
	if s.Transport == config.Stdio {
		e.process()
	} else {
		e.remote()
	}
	e.toolLists()
	s.Disabled = e.boolean("disabled", false) || !e.boolean("enabled", true)
	if n, ok := e.fields["tool_timeout_sec"].(number); ok {
		if seconds, err := strconv.ParseFloat(string(n), 64); err == nil && seconds >= 0.001 && seconds < 1e6 {
			s.Timeout = time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
		}
	}
	e.know("tool_timeout_sec")
	for _, key := range approvalKeys {
		if e.fields[key] != nil {
			e.know(key)
			e.note("%s is left out: the host decides about calls of mcp-metatool's tools now", key)
		}
	}
	e.special()
	for _, key := range e.keys {
		if !e.known[key] {
			e.note("unknown key %q is left out", key)
		}
	}
}

// special reports keys with a meaning that the configuration cannot express.
func (e *entry) special() {
	if e.file.Host.Name == Metatool.Name {
		e.know(e.keys...) // the reader of the configuration compares the keys
		return
	}
	login := "log in with: mcp-metatool auth " + e.server.Name
	for _, special := range []struct{ key, hint string }{
		{"envFile", "set its variables in env, or in the environment of the host"},
		{"oauth", login}, {"auth", login}, {"scopes", login}, {"oauth_resource", login},
		{"sandboxEnabled", "servers run with your rights here"}, {"sandbox", "servers run with your rights here"},
		{"timeout", "hosts disagree about its unit: set timeout in the configuration"},
		{"dev", "it is for developing the server"},
		{"headersHelper", "put the headers into headers"},
	} {
		if e.fields[special.key] != nil {
			e.know(special.key)
			e.note("%s is left out (%s)", special.key, special.hint)
		}
	}
}

func (e *entry) know(keys ...string) {
	for _, key := range keys {
		e.known[key] = true
	}
}

// str returns the text under the first existing key.
func (e *entry) str(keys ...string) string {
	e.know(keys...)
	for _, key := range keys {
		switch v := e.fields[key].(type) {
		case string:
			return v
		case nil:
		default:
			e.note("%s is not a string, and is left out", key)
		}
	}
	return ""
}

func (e *entry) boolean(key string, otherwise bool) bool {
	e.know(key)
	if v, ok := e.fields[key].(bool); ok {
		return v
	}
	return otherwise
}

// list returns the texts under a key.
func (e *entry) list(key string) []string {
	e.know(key)
	if e.fields[key] == nil {
		return nil
	}
	items, ok := e.fields[key].([]any)
	if !ok {
		e.note("%s is not a list, and is left out", key)
		return nil
	}
	texts := make([]string, 0, len(items))
	for i, item := range items {
		text, ok := scalar(item)
		if !ok {
			e.note("%s[%d] is not a string, and is left out", key, i)
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// settings returns the named texts under a key, translated.
func (e *entry) settings(key string) []Setting {
	e.know(key)
	o, ok := e.fields[key].(*object)
	if !ok {
		if e.fields[key] != nil {
			e.note("%s is not an object, and is left out", key)
		}
		return nil
	}
	var list []Setting
	for _, name := range o.keys {
		text, ok := scalar(o.fields[name])
		if !ok {
			e.note("%s.%s is not a string, and is left out", key, name)
			continue
		}
		list = append(list, Setting{name, e.text.text(text)})
	}
	return list
}

// scalar returns a string, or a number or boolean as a string, which is how hosts pass
// them on.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case number:
		return string(v), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// transport determines how the server is reached.
func (e *entry) transport() {
	kind := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(e.str("type", "transport")))
	command := e.fields["command"] != nil
	url := e.fields["url"] != nil || e.fields["serverUrl"] != nil || e.fields["httpUrl"] != nil
	e.know("type", "transport")
	switch {
	case command && url:
		e.server.Problem = "has both a command and an address"
	case command && (kind == "" || kind == "stdio" || kind == "local"):
		e.server.Transport = config.Stdio
	case url && kind == "sse":
		e.server.Transport = config.LegacySSE
	case url && (kind == "" || kind == "http" || kind == "streamablehttp" || kind == "remote"):
		e.server.Transport = config.StreamableHTTP
	case !command && !url:
		e.server.Problem = "has neither a command nor an address"
	default:
		e.server.Problem = fmt.Sprintf("has the transport %q, which is not supported (there are stdio, http and sse)", clip(kind))
	}
}

// process reads the program to start.
func (e *entry) process() {
	s := e.server
	if o, ok := e.fields["command"].(*object); ok { // the older form of Zed
		nested := entry{object: o, file: e.file, sys: e.sys, server: s, known: e.known, text: e.text}
		if path := o.fields["path"]; path != nil && o.fields["command"] == nil {
			o.set("command", path)
		}
		nested.process()
		e.text = nested.text
		return
	}
	command := e.str("command")
	if strings.TrimSpace(command) == "" {
		s.Problem = "has an empty command"
		return
	}
	s.Command = e.text.text(command)
	for _, arg := range e.list("args") {
		s.Args = append(s.Args, e.text.text(arg))
	}
	s.Env = e.settings("env")
	for _, name := range e.list("env_vars") { // Codex passes these on from its own environment
		if envName.MatchString(name) {
			s.Env = with(s.Env, Setting{name, "${" + name + ":-}"})
			e.text.refer(name, name)
		} else {
			e.note("%q in env_vars is not the name of a variable, and is left out", clip(name))
		}
	}
	s.Dir = e.text.text(e.str("cwd"))
	if e.file.Host.Name == Metatool.Name {
		return
	}
	e.relative()
}

// relative resolves relative paths: paths of a project against its folder, where its host starts
// the server, and other paths against the folder of the file.
func (e *entry) relative() {
	s, base := e.server, filepath.Dir(e.file.Path)
	if e.file.Scope != User {
		base = e.sys.Project
		if s.Dir == "" {
			s.Dir = escape(base)
		}
	}
	absolute := func(path string) string {
		if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~") || strings.HasPrefix(path, "${") {
			return path
		}
		return filepath.Join(escape(base), path)
	}
	s.Dir = absolute(s.Dir)
	if strings.ContainsAny(s.Command, `/`+string(filepath.Separator)) {
		if s.Dir != "" && !strings.HasPrefix(s.Dir, "${") && !strings.HasPrefix(s.Dir, "~") {
			base = s.Dir
		}
		s.Command = absolute(s.Command)
	}
	if s.Dir != "" {
		return
	}
	for _, arg := range s.Args {
		if strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
			e.note("the argument %s is relative, and the host does not say to which folder (set cwd)", clip(arg))
		}
	}
}

// remote reads the address to connect to.
func (e *entry) remote() {
	s := e.server
	s.URL = e.text.text(e.str("url", "serverUrl", "httpUrl"))
	if s.URL == "" {
		s.Problem = "has an empty address"
		return
	}
	s.Headers = e.settings("headers")
	for _, h := range e.settings("http_headers") {
		s.Headers = with(s.Headers, h)
	}
	e.know("env_http_headers")
	if o := e.at("env_http_headers"); o != nil {
		for _, name := range o.keys {
			if variable, ok := o.fields[name].(string); ok && envName.MatchString(variable) {
				s.Headers = with(s.Headers, Setting{name, e.text.refer(variable, variable)})
			}
		}
	}
	if variable := e.str("bearer_token_env_var"); envName.MatchString(variable) {
		s.Headers = with(s.Headers, Setting{"Authorization", "Bearer " + e.text.refer(variable, variable)})
	}
	if token := e.str("bearer_token"); token != "" {
		s.Headers = with(s.Headers, Setting{"Authorization", "Bearer " + e.text.text(token)})
	}
}

// with returns the list with a setting, in place of a setting with the same name.
func with(list []Setting, s Setting) []Setting {
	list = slices.DeleteFunc(list, func(other Setting) bool { return strings.EqualFold(other.Name, s.Name) })
	return append(list, s)
}

// toolLists reads which tools the host shows.
func (e *entry) toolLists() {
	s := e.server
	if e.file.Host.Name == Metatool.Name {
		s.Expose, s.Hide = e.list("expose"), e.list("hide")
		s.Timeout, _ = units.ParseDuration(e.str("timeout")) // an invalid duration differs from every duration
		return
	}
	for _, key := range []string{"enabled_tools", "enabledTools", "includeTools"} {
		if tools := e.list(key); tools != nil { // an empty list means none
			if s.Expose == nil {
				s.Expose = []string{}
			}
			s.Expose = append(s.Expose, tools...)
		}
	}
	for _, key := range []string{"disabled_tools", "disabledTools", "excludeTools"} {
		s.Hide = append(s.Hide, e.list(key)...)
	}
}
