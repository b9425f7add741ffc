package clientconfig

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Entry is the entry with which a host starts the proxy.
type Entry struct {
	Name    string
	Command string // absolute
	Args    []string
	Env     []Setting
	// Pass are variables that the host passes on from its own environment. Only Codex has such
	// variables.
	Pass []string
}

// Refer makes the host pass variables to the proxy as to other servers; see [Server.References].
func (e *Entry) Refer(h *Host, refs []Setting) {
	for _, r := range refs {
		switch {
		case h.Format == TOML:
			if !slices.Contains(e.Pass, r.Name) {
				e.Pass = append(e.Pass, r.Name)
			}
		case !slices.ContainsFunc(e.Env, func(s Setting) bool { return s.Name == r.Name }):
			e.Env = append(e.Env, r)
		}
	}
}

// CommandLine returns the command as a shell reads commands, in full.
func (e *Entry) CommandLine() string {
	words := []string{Quote(e.Command)}
	for _, arg := range e.Args {
		words = append(words, Quote(arg))
	}
	return strings.Join(words, " ")
}

// Set returns the text of a file with the entry. An existing entry of the same name is enabled, and
// keeps its other settings; see Kept.
func (f *File) Set(text []byte, e *Entry) ([]byte, error) {
	root, err := readTree(f.Host.Format, text)
	if err != nil {
		return nil, err
	}
	path := append(f.Under[:len(f.Under):len(f.Under)], e.Name)
	if e, err = e.kept(root.at(path...)); err != nil {
		return nil, err
	}
	if f.Host.Format == TOML {
		return setCodex(text, root, path, e)
	}
	if root.at(path...) == nil {
		return setJSON(text, path, e.json(f.Host))
	}
	set := func(value any, keys ...string) {
		if err == nil {
			text, err = setJSON(text, append(path[:len(path):len(path)], keys...), encode(value))
		}
	}
	set(e.Command, "command")
	set(orEmpty(e.Args), "args")
	for _, s := range e.Env {
		set(s.Value, "env", s.Name)
	}
	enable(root.at(path...), set)
	return text, err
}

// Kept returns the entry with a person's additions to the entry of the same name in the text of the
// file: arguments, and variables to pass on.
func (f *File) Kept(text []byte, e *Entry) (*Entry, error) {
	root, err := readTree(f.Host.Format, text)
	if err != nil {
		return nil, err
	}
	return e.kept(root.at(append(f.Under[:len(f.Under):len(f.Under)], e.Name)...))
}

// kept is Kept for the existing entry; nil: none exists.
func (e *Entry) kept(had *object) (*Entry, error) {
	if had == nil {
		return e, nil
	}
	kept := *e
	command, _ := had.fields["command"].(string)
	if own, ok := ownArgs(append([]string{command}, texts(had.fields["args"])...)); ok {
		kept.Args = withConfig(own, e.Args)
	}
	listed, _ := had.fields["env_vars"].([]any)
	names := texts(had.fields["env_vars"])
	for _, name := range e.Pass {
		if !slices.Contains(names, name) {
			names = append(names, name)
			if len(texts(listed)) < len(listed) {
				return nil, &shapeError{"env_vars of " + e.Name + " has something else than names (add " + name + " to it yourself)"}
			}
		}
	}
	kept.Pass = names
	if len(texts(listed)) < len(listed) {
		kept.Pass = nil // the list has all needed variables
	}
	return &kept, nil
}

// texts returns the strings of a list.
func texts(v any) []string {
	var list []string
	items, _ := v.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// withConfig returns a person's arguments with the configuration of the product's arguments:
// --config PATH.
func withConfig(chosen, generated []string) []string {
	at := slices.Index(generated, "--config")
	if at < 0 || at+1 >= len(generated) {
		return chosen
	}
	path := generated[at+1]
	var args []string
	placed := false
	for i := 0; i < len(chosen); i++ {
		name, _, assigned := strings.Cut(chosen[i], "=")
		if name != "--config" && name != "-c" {
			args = append(args, chosen[i])
			continue
		}
		if !placed {
			args, placed = append(args, "--config", path), true
		}
		if !assigned {
			i++
		}
	}
	if !placed {
		args = append(args, "--config", path)
	}
	return args
}

// enable makes the host start a disabled entry.
func enable(entry *object, set func(value any, keys ...string)) {
	if entry.fields["disabled"] == true {
		set(false, "disabled")
	}
	if entry.fields["enabled"] == false {
		set(true, "enabled")
	}
}

// Remove returns the text of a file without the server of a name, and whether the server existed.
func (f *File) Remove(text []byte, name string) (_ []byte, removed bool, err error) {
	path := append(f.Under[:len(f.Under):len(f.Under)], name)
	if f.Host.Format == TOML {
		return removeTOML(text, path)
	}
	return removeJSON(text, path)
}

// json returns the entry in the form of a host.
func (e *Entry) json(h *Host) []byte {
	var parts []string
	add := func(key string, value any) { parts = append(parts, string(encode(key))+":"+string(encode(value))) }
	if h.Name == "zed" {
		add("source", "custom") // versions of 2025 require the member
	}
	if h.typed {
		add("type", "stdio")
	}
	add("command", e.Command)
	add("args", orEmpty(e.Args))
	if len(e.Env) > 0 {
		var env []string
		for _, s := range e.Env {
			env = append(env, string(encode(s.Name))+":"+string(encode(s.Value)))
		}
		add("env", jsontext.Value("{"+strings.Join(env, ",")+"}"))
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// encode returns a value as JSON. Every value in this package can be encoded.
func encode(v any) []byte {
	if raw, ok := v.(jsontext.Value); ok {
		return raw
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("clientconfig: " + err.Error())
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Link is an address: the host asks its user whether to add a server.
type Link struct{ Label, URL string }

// Links returns the one-click links for the entry, none for a host without links. Links are kept
// and sent around, and so have variables of the host in place of secrets, the values of the given
// names.
func (e *Entry) Links(h *Host, secret []string) []Link {
	e = e.referring(secret)
	switch h.Name {
	case "cursor":
		own := *h
		own.typed = false
		return []Link{{"Cursor", "cursor://anysphere.cursor-deeplink/mcp/install?name=" + url.QueryEscape(e.Name) +
			"&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString(e.json(&own)))}}
	case "vscode":
		named := append(fmt.Appendf(nil, `{"name":%s,`, encode(e.Name)), e.json(h)[1:]...)
		return []Link{
			{"VS Code", "vscode:mcp/install?" + url.PathEscape(string(named))},
			{"VS Code, through a page", "https://insiders.vscode.dev/redirect/mcp/install?name=" + url.QueryEscape(e.Name) +
				"&config=" + strings.ReplaceAll(url.QueryEscape(string(e.json(h))), "+", "%20")},
		}
	}
	return nil
}

// referring returns the entry with variables of the host in place of values.
func (e *Entry) referring(names []string) *Entry {
	other := *e
	other.Env = slices.Clone(e.Env)
	for i, s := range other.Env {
		if slices.Contains(names, s.Name) {
			other.Env[i].Value = "${env:" + s.Name + "}"
		}
	}
	return &other
}

// AddCommand returns the host's own command for adding the entry, nil if the host has none for the
// scope, or would take the name for an option.
func (e *Entry) AddCommand(h *Host, scope Scope) []string {
	if strings.HasPrefix(e.Name, "-") {
		return nil
	}
	env := func(option string) []string {
		var list []string
		for _, s := range e.Env {
			list = append(list, option, s.Name+"="+s.Value)
		}
		return list
	}
	command := append([]string{e.Command}, e.Args...)
	switch {
	case h.Name == "claude-code":
		// The name comes before -e, which takes every word up to --.
		return append(append(append([]string{"claude", "mcp", "add", "--scope", string(scope), e.Name}, env("-e")...), "--"), command...)
	case h.Name == "codex" && scope == User && e.Pass == nil:
		return append(append(append([]string{"codex", "mcp", "add"}, append(env("--env"), e.Name)...), "--"), command...)
	case h.Name == "vscode" && scope == User:
		named := append(fmt.Appendf(nil, `{"name":%s,`, encode(e.Name)), e.json(h)[1:]...)
		return []string{"code", "--add-mcp", string(named)}
	}
	return nil
}

// RemoveCommand returns the host's own command for removing a server, nil if the host has none, or
// would take the name for an option.
func RemoveCommand(h *Host, scope Scope, name string) []string {
	switch {
	case strings.HasPrefix(name, "-"):
		return nil
	case h.Name == "claude-code":
		return []string{"claude", "mcp", "remove", "--scope", string(scope), name}
	case h.Name == "codex" && scope == User:
		return []string{"codex", "mcp", "remove", name}
	}
	return nil
}
