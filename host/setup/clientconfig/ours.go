package clientconfig

import (
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

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
