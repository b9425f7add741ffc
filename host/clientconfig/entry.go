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

// Entry is what a host is told to start us.
type Entry struct {
	Name    string
	Command string // absolute
	Args    []string
	Env     []Setting
	// Pass are variables that the host passes on from its own environment. Only Codex
	// has that.
	Pass []string
}

// Refer makes the host give us variables as it gave them to other servers; see
// [Server.References].
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

// CommandLine returns the command as a shell reads it, in full.
func (e *Entry) CommandLine() string {
	words := []string{Quote(e.Command)}
	for _, arg := range e.Args {
		words = append(words, Quote(arg))
	}
	return strings.Join(words, " ")
}

// Set returns the text of a file with the entry in it. An entry with that name keeps the
// settings that are not ours, except that it is enabled.
func (f *File) Set(text []byte, e *Entry) ([]byte, error) {
	if f.Host.Format == TOML {
		return setCodex(text, f.Under, e)
	}
	root, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	path := append(f.Under[:len(f.Under):len(f.Under)], e.Name)
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

// enable makes a disabled entry one that the host starts.
func enable(entry *object, set func(value any, keys ...string)) {
	if entry.fields["disabled"] == true {
		set(false, "disabled")
	}
	if entry.fields["enabled"] == false {
		set(true, "enabled")
	}
}

// Remove returns the text of a file without the server of that name, and whether there was
// one.
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
		add("source", "custom") // versions of 2025 require it
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

// encode returns a value as JSON. What it is given always encodes.
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

// Link is an address that makes a host ask its user whether to add a server.
type Link struct{ What, URL string }

// Links returns the one-click links for the entry, none if the host has no such links.
func (e *Entry) Links(h *Host) []Link {
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

// AddCommand returns the host's own command that adds the entry, nil if it has none for the
// scope.
func (e *Entry) AddCommand(h *Host, scope Scope) []string {
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

// RemoveCommand returns the host's own command that removes a server, nil if it has none.
func RemoveCommand(h *Host, scope Scope, name string) []string {
	switch {
	case h.Name == "claude-code":
		return []string{"claude", "mcp", "remove", "--scope", string(scope), name}
	case h.Name == "codex" && scope == User:
		return []string{"codex", "mcp", "remove", name}
	}
	return nil
}
