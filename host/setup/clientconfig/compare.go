package clientconfig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Difference is a setting in which two servers differ. Secrets in the texts are masked.
type Difference struct {
	Setting    string `json:"setting"`
	Configured string `json:"ours"` // "" if not set
	Listed     string `json:"theirs"`
}

// Compare returns the differences between a server of the product's configuration and a server of a
// host, nil for two servers with the same effect. Settings that only the product has are not
// compared.
func Compare(configured, listed *Server, home string) []Difference {
	var list []Difference
	add := func(setting, a, b string) {
		if a != b {
			list = append(list, Difference{setting, Mask(setting, a), Mask(setting, b)})
		}
	}
	add("transport", string(configured.Transport), string(listed.Transport))
	if !sameCommand(configured.Command, listed.Command) {
		add("command", configured.Command, listed.Command)
	}
	if !slices.Equal(configured.Args, listed.Args) {
		add("args", quoteArgs(configured.Args), quoteArgs(listed.Args))
	}
	list = append(list, compareSettings("env.", configured.Env, listed.Env, func(s string) string { return s })...)
	tilde := func(dir string) string {
		if rest, ok := strings.CutPrefix(dir, "~"); ok {
			return filepath.Join(home, rest)
		}
		return dir
	}
	if tilde(configured.Dir) != tilde(listed.Dir) {
		add("cwd", configured.Dir, listed.Dir)
	}
	add("url", configured.URL, listed.URL)
	list = append(list, compareSettings("headers.", configured.Headers, listed.Headers, strings.ToLower)...)
	if listed.Hide != nil && !slices.Equal(configured.Hide, listed.Hide) {
		add("hide", strings.Join(configured.Hide, ", "), strings.Join(listed.Hide, ", "))
	}
	if listed.Expose != nil && !slices.Equal(configured.Expose, listed.Expose) {
		add("expose", strings.Join(configured.Expose, ", "), strings.Join(listed.Expose, ", "))
	}
	if listed.Timeout != 0 && configured.Timeout != listed.Timeout {
		timeout := ""
		if configured.Timeout != 0 {
			timeout = units.FormatDuration(configured.Timeout)
		}
		add("timeout", timeout, units.FormatDuration(listed.Timeout))
	}
	if configured.Disabled != listed.Disabled {
		add("disabled", fmt.Sprint(configured.Disabled), fmt.Sprint(listed.Disabled))
	}
	return list
}

func compareSettings(prefix string, configured, listed []Setting, fold func(string) string) []Difference {
	values := func(list []Setting) map[string]string {
		m := map[string]string{}
		for _, s := range list {
			m[fold(s.Name)] = s.Value
		}
		return m
	}
	a, b := values(configured), values(listed)
	var list []Difference
	for _, s := range slices.Concat(listed, configured) {
		key := fold(s.Name)
		va, inA := a[key]
		vb, inB := b[key]
		known := slices.ContainsFunc(list, func(d Difference) bool { return d.Setting == prefix+s.Name })
		if known || inA == inB && va == vb {
			continue
		}
		list = append(list, Difference{prefix + s.Name, Mask(s.Name, va), Mask(s.Name, vb)})
	}
	return list
}

// sameCommand reports whether two commands are the same program: a name is looked up in PATH.
func sameCommand(a, b string) bool {
	if a == b {
		return true
	}
	find := func(command string) string {
		if filepath.Base(command) == command {
			if path, err := exec.LookPath(command); err == nil {
				return path
			}
		}
		return command
	}
	return find(a) == find(b)
}

// MaskedArgs returns the arguments with secrets masked, also after an option such as --token.
func (s *Server) MaskedArgs() []string {
	masked := make([]string, len(s.Args))
	option := ""
	for i, arg := range s.Args {
		masked[i] = Mask(option, arg)
		if option = ""; strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
			option = arg
		}
	}
	return masked
}

// quoteArgs returns arguments as a line.
func quoteArgs(args []string) string {
	masked := (&Server{Args: args}).MaskedArgs()
	for i, arg := range masked {
		masked[i] = Quote(arg)
	}
	return strings.Join(masked, " ")
}

// Quote returns a word as a shell reads words.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ReadMetatool reads the servers of the product's configuration as written: variables are not expanded.
// The name of the file determines its format, as in package config.
func ReadMetatool(s *System, path string, data []byte) ([]Server, error) {
	host := *Metatool
	keys := []string{"upstream"}
	if host.Format = TOML; strings.EqualFold(filepath.Ext(path), ".json") {
		host.Format, keys = JSON, []string{"mcpServers", "upstreamServers"}
	}
	var servers []Server
	for _, key := range keys {
		list, err := parse(s, File{Host: &host, Path: path, Scope: User, Under: []string{key}}, data)
		if err != nil {
			return nil, err
		}
		servers = append(servers, list...)
	}
	return servers, nil
}

// Write puts the server into the product's configuration. An existing server of the same name keeps
// the settings that hosts do not have, such as prefix, and settings about tools and time that this
// host does not set. The error is an error of package edit.
func (s *Server) Write(f *edit.File) error {
	if !f.Has(s.Name) {
		return f.Put(s.Name, s.edit())
	}
	var failed error
	change := func(key string, value any, set bool) {
		switch {
		case failed != nil:
		case set:
			failed = f.Set(s.Name, key, value)
		default:
			failed = f.Unset(s.Name, key)
		}
	}
	change("command", s.Command, s.Command != "")
	change("args", s.Args, len(s.Args) > 0)
	change("cwd", s.Dir, s.Dir != "")
	change("env", table(s.Env), len(s.Env) > 0)
	change("url", s.URL, s.URL != "")
	change("transport", string(s.Transport), s.Transport == config.LegacySSE)
	change("headers", table(s.Headers), len(s.Headers) > 0)
	change("disabled", true, s.Disabled)
	for _, tools := range []struct {
		key  string
		list []string
	}{{"expose", s.Expose}, {"hide", s.Hide}} {
		if tools.list != nil {
			change(tools.key, tools.list, true)
		}
	}
	if s.Timeout != 0 {
		change("timeout", units.FormatDuration(s.Timeout), true)
	}
	return failed
}

func table(list []Setting) tomldoc.InlineTable {
	t := tomldoc.InlineTable{}
	for _, s := range list {
		t = append(t, tomldoc.Entry{Key: s.Name, Value: s.Value})
	}
	return t
}

// edit returns the server in the form of package edit.
func (s *Server) edit() edit.Server {
	settings := func(list []Setting) []edit.Setting {
		var converted []edit.Setting
		for _, s := range list {
			converted = append(converted, edit.Setting(s))
		}
		return converted
	}
	e := edit.Server{
		Command: s.Command, Args: s.Args, Env: settings(s.Env), Dir: s.Dir,
		URL: s.URL, Headers: settings(s.Headers),
		Expose: s.Expose, Hide: s.Hide, Disabled: s.Disabled,
	}
	if s.Transport != config.Stdio {
		e.Transport = s.Transport
	}
	if s.Timeout != 0 {
		e.Timeout = units.FormatDuration(s.Timeout)
	}
	return e
}
