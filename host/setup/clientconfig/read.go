package clientconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Read reads the servers of a place. A missing file has none. The error names the file, and comes
// from reading (see [regular.Read]), or matches [ErrSyntax] or [ErrShape].
func Read(ctx context.Context, s *System, f File) (*Listing, error) {
	l := &Listing{File: f}
	data, err := regular.Read(ctx, f.Path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if path := new(fs.PathError); errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	l.Exists, l.Data = true, data
	if l.Servers, err = parse(s, f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return l, nil
}

// ReadFile reads a file of an unknown host, which is recognized by the name and the keys of the
// file.
func ReadFile(ctx context.Context, s *System, path string) (*Listing, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := regular.Read(ctx, abs, MaxFile)
	if perr := new(fs.PathError); errors.As(err, &perr) {
		err = perr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := recognize(abs, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := &Listing{File: f, Exists: true, Data: data}
	if l.Servers, err = parse(s, f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// fileNames are the names of files by which their host is recognized.
var fileNames = map[string]string{
	".claude.json": "claude-code", ".mcp.json": "claude-code",
	"claude_desktop_config.json": "claude-desktop", "mcp_config.json": "windsurf",
}

// recognize determines the host whose form a file has.
func recognize(path string, data []byte) (File, error) {
	f := File{Path: path, Scope: User}
	format := JSON
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		format = TOML
	}
	root, err := readTree(format, data)
	if err != nil {
		return f, err
	}
	for _, form := range []struct {
		key  string
		host *Host
	}{
		{"mcp_servers", Lookup("codex")}, {"upstream", Metatool}, {"upstreamServers", Metatool},
		{"context_servers", Lookup("zed")}, {"servers", Lookup("vscode")}, {"mcpServers", anyFile},
	} {
		if root.at(form.key) == nil {
			continue
		}
		host := form.host
		if known := fileNames[strings.ToLower(filepath.Base(path))]; known != "" && host == anyFile {
			host = Lookup(known)
		}
		own := *host
		own.Format = format
		f.Host, f.Under = &own, []string{form.key}
		return f, nil
	}
	return f, &shapeError{"lists no servers (a host's file has them under mcpServers, servers, context_servers or mcp_servers)"}
}

func readTree(format Format, data []byte) (*object, error) {
	if format == TOML {
		return readTOML(data)
	}
	return readJSON(data)
}

// parse reads the servers of a text.
func parse(s *System, f File, data []byte) ([]Server, error) {
	root, err := readTree(f.Host.Format, data)
	if err != nil {
		return nil, err
	}
	parent := root.at(f.Under[:len(f.Under)-1]...)
	if parent == nil || parent.fields[f.Under[len(f.Under)-1]] == nil {
		return nil, nil
	}
	value := parent.fields[f.Under[len(f.Under)-1]]
	if items, ok := value.([]any); ok && f.Host.Name == Metatool.Name {
		value = byName(items)
	}
	list, ok := value.(*object)
	if !ok || list == nil {
		return nil, &shapeError{strings.Join(f.Under, ".") + " is not an object with a server under each name"}
	}
	var servers []Server
	names := validNames(list.keys)
	for i, name := range list.keys {
		servers = append(servers, readServer(s, f, names[i], name, list.fields[name]))
	}
	return servers, nil
}

// byName makes an object of a list of servers that have their names in them, a form of the
// product's configuration in JSON. The result is nil if a server has no name, or the name of
// another server.
func byName(items []any) *object {
	list := newObject()
	for _, item := range items {
		server, ok := item.(*object)
		if !ok {
			return nil
		}
		name, ok := server.fields["name"].(string)
		if _, twice := list.fields[name]; !ok || twice {
			return nil
		}
		list.set(name, server)
	}
	return list
}

// readServer reads the entry of a server with the name original in the file.
func readServer(s *System, f File, name, original string, v any) Server {
	srv := Server{Name: name, Original: original}
	if name != original {
		srv.Notes = append(srv.Notes, fmt.Sprintf("it is called %s here: names are 1 to 32 letters, digits, _ and -", name))
	}
	o, ok := v.(*object)
	if !ok {
		srv.Problem = "is not an object"
		return srv
	}
	e := &entry{
		object: o, file: f, sys: s, server: &srv, known: map[string]bool{},
		text: translator{kind: f.Host.vars, sys: s, project: s.Project, sure: f.Scope != User, files: expandsFiles(s, f)},
	}
	e.read()
	srv.Notes, srv.References = append(srv.Notes, e.text.notes...), e.text.refs
	srv.Self = isSelf(&srv)
	return srv
}

var (
	allowedName = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)
	badName     = lazyregexp.New(`[^A-Za-z0-9_-]+`)
)

// validNames returns different names that the product's configuration allows for the servers of a
// file. Allowed names stay.
func validNames(originals []string) []string {
	used := map[string]bool{}
	for _, original := range originals {
		if validName(original) == original {
			used[original] = true
		}
	}
	names := make([]string, len(originals))
	for i, original := range originals {
		name := validName(original)
		if name != original {
			for base, n := name, 2; used[name] || abi.Reserved(abi.Ident(name)); n++ {
				number := fmt.Sprintf("-%d", n)
				name = base[:min(len(base), 32-len(number))] + number
			}
			used[name] = true
		}
		names[i] = name
	}
	return names
}

// validName returns a name that the product's configuration allows.
func validName(name string) string {
	if !allowedName.MatchString(name) {
		name = strings.Trim(badName.ReplaceAllString(name, "-"), "-")
		if name == "" {
			name = "server"
		}
		name = name[:min(len(name), 32)]
	}
	if abi.Reserved(abi.Ident(name)) {
		name = name[:min(len(name), 25)] + "-server"
	}
	return name
}

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

// variables lists the variables that a host expands in its files.
type variables int

const (
	noVariables       variables = iota // ${X} is text: Claude Desktop, Codex, Zed
	shellVariables                     // ${X} and ${X:-default}: Claude Code
	editorVariables                    // ${env:X}, ${input:x}, ${workspaceFolder}, ...: VS Code, Cursor, Windsurf
	allVariables                       // both: a file of which the host is not known
	metatoolVariables                  // variables of the product's configuration, which stay unchanged
)

var (
	envName    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	shellForm  = lazyregexp.New(`^([A-Za-z_][A-Za-z0-9_]*)(:-[^{}]*)?$`)
	notAllowed = lazyregexp.New(`[^A-Z0-9]+`)
)

// VariableName makes the name of an environment variable of a text such as api-key.
func VariableName(text string) string {
	name := strings.Trim(notAllowed.ReplaceAllString(strings.ToUpper(text), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "MCP_" + name
	}
	return name
}

// translator rewrites texts of a file to the variables of the product's configuration, and collects
// the texts that cannot be rewritten.
type translator struct {
	kind    variables
	sys     *System
	project string // the folder for ${workspaceFolder}
	sure    bool   // project is certain
	files   bool   // the host expands ${file:/path} here
	notes   []string
	refs    []Setting // see Server.References
}

// refer records the host's expression for a variable of the product, and returns the variable.
func (t *translator) refer(variable, expression string) string {
	t.refs = with(t.refs, Setting{variable, "${" + expression + "}"})
	return "${" + variable + "}"
}

func (t *translator) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// expandsFiles reports whether a host puts the content of a file in place of ${file:/path} in its
// own file f. Windsurf does. Anywhere else, for example in a file from a repository, the expression
// is text, and must not make the product read the file.
func expandsFiles(s *System, f File) bool {
	return f.Scope == User && slices.ContainsFunc(Lookup("windsurf").Files(s), func(own File) bool { return own.Path == f.Path })
}

// text rewrites a text. Dollar signs without a meaning for the host are escaped.
func (t *translator) text(s string) string {
	if t.kind == metatoolVariables {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		expression, after, closed := strings.Cut(rest, "}")
		value, ok := "", false
		if closed && !strings.HasSuffix(before, "$") {
			value, ok = t.expression(expression)
		}
		if !ok {
			if t.kind != noVariables {
				t.note("${%s} is not a variable that can be taken over, and stays as text", clip(expression))
			}
			b.WriteString("$${")
			s = rest
			continue
		}
		b.WriteString(value)
		s = after
	}
}

// expression returns the product's text for ${expression}.
func (t *translator) expression(expression string) (string, bool) {
	if t.kind == shellVariables || t.kind == allVariables {
		if shellForm.MatchString(expression) && !(t.kind == allVariables && t.isFolder(expression)) {
			return "${" + expression + "}", true
		}
	}
	if t.kind != editorVariables && t.kind != allVariables {
		return "", false
	}
	kind, name, colon := strings.Cut(expression, ":")
	switch {
	case colon && kind == "env" && envName.MatchString(name):
		return t.refer(name, expression), true
	case colon && kind == "input" && name != "":
		variable := VariableName(name)
		t.note("${input:%s}, which the host asks for, becomes the environment variable %s", clip(name), variable)
		return t.refer(variable, expression), true
	case colon && kind == "file" && t.files && filepath.IsAbs(name):
		return "${" + expression + "}", true
	case colon:
		return "", false
	}
	switch expression {
	case "userHome":
		return escape(t.sys.Home), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	case "workspaceFolder", "cwd", "workspaceFolderBasename":
		folder := t.project
		if !t.sure {
			t.note("${%s} becomes %s: mcp-metatool does not know which folder the host has open", expression, t.project)
		}
		if expression == "workspaceFolderBasename" {
			folder = filepath.Base(folder)
		}
		return escape(folder), true
	}
	return "", false
}

func (t *translator) isFolder(expression string) bool {
	switch expression {
	case "userHome", "pathSeparator", "workspaceFolder", "cwd", "workspaceFolderBasename":
		return true
	}
	return false
}

// escape makes a text without variables.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// clip shortens the name of a variable for a message.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
