package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// comparison is what is known while the servers of a host are compared with the
// configuration.
type comparison struct {
	home   string
	ours   map[string]*clientconfig.Server
	idents map[string]string // what scripts call a server, and its name
	// seen has the names in the host's files, and given the names here with those.
	seen  map[string]bool
	given map[string]string
	// used are the names of variables and secrets that the configuration refers to. taken
	// are the values of the variables of this environment, and chosen of the new ones.
	used          []string
	taken, chosen map[string]string
}

// compare determines the state of each server. The error is about the configuration.
func (m *hostImport) compare(ctx context.Context) error {
	ours, err := clientconfig.ReadOurs(m.sys, m.file.Path(), m.file.Text())
	if err != nil {
		if _, problem := m.file.Parse(config.LoadOptions{Policies: compile.Policy, Context: ctx, Getenv: placeholder}); problem != nil {
			return problem // it says more
		}
		return fmt.Errorf("%s: %w", m.file.Path(), err)
	}
	c := &comparison{
		home: m.sys.Home, ours: map[string]*clientconfig.Server{}, idents: map[string]string{},
		seen: map[string]bool{}, given: map[string]string{},
		used: clientconfig.References(string(m.file.Text())), taken: map[string]string{}, chosen: map[string]string{},
	}
	for i := range ours {
		c.ours[ours[i].Original] = &ours[i]
		c.idents[abi.Ident(ours[i].Original)] = ours[i].Original
	}
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			c.taken[name] = value
		}
	}
	for _, l := range slices.Backward(m.listings) { // a narrower scope takes precedence
		var found []*foundServer
		for i := range l.Servers {
			f := &foundServer{File: l.File.Path, Scope: l.File.Scope, listing: l, server: &l.Servers[i]}
			m.judge(f, c)
			found = append(found, f)
		}
		m.found = append(found, m.found...)
	}
	return nil
}

// judge determines the state of one server.
func (m *hostImport) judge(f *foundServer, c *comparison) {
	s := f.server
	f.Name, f.Transport, f.Notes, f.Starts = s.Name, s.Transport, s.Notes, starts(s)
	ident := abi.Ident(s.Name)
	unfit := func(reason string) { f.State, f.Notes = foundUnfit, append([]string{reason}, f.Notes...) }
	switch other, clash := c.idents[ident]; {
	case s.Self:
		f.State, f.Notes = foundSelf, nil
		return
	case m.only != nil && !slices.Contains(m.only, s.Original) && !slices.Contains(m.only, s.Name):
		f.State, f.Notes = foundSkipped, nil
		return
	case s.Problem != "":
		unfit(s.Problem)
		return
	case c.seen[s.Original]:
		f.State, f.Notes = foundHidden, []string{"a server of the same name in a narrower scope takes its place"}
		return
	case c.given[s.Name] != "": // in another file, under another name
		unfit(fmt.Sprintf("%q would have the same name here (rename one of them)", c.given[s.Name]))
		return
	case clash && other != s.Name:
		unfit(fmt.Sprintf("scripts could not tell it from %s (rename one of them)", other))
		return
	}
	c.seen[s.Original], c.given[s.Name], c.idents[ident] = true, s.Original, s.Name
	if problem := commandProblem(s); problem != "" {
		f.Notes = append(f.Notes, problem)
	}
	had := c.ours[s.Name]
	if had == nil {
		f.State = foundNew
		f.take(c, c.names(s, nil))
		return
	}
	f.waiting(had)
	f.State, f.Differences = foundSame, f.compare(c, had, s)
	if f.Differences == nil { // the secrets are in plain text there too
		return
	}
	names, matches := f.match(c, had)
	f.take(c, names)
	if !matches {
		f.State = foundDiffers
	}
}

// names returns the variables that are in use, with their values, for
// [clientconfig.Server.Secrets]. The value of a variable in the configuration is not known,
// so none of its servers' variables is used for s, except those that s has there already.
func (c *comparison) names(s *clientconfig.Server, except []string) map[string]string {
	names := maps.Clone(c.taken)
	maps.DeleteFunc(names, func(name, _ string) bool { return slices.Contains(except, name) || s.Owns(name) })
	maps.Copy(names, c.chosen)
	for _, name := range c.used {
		if !slices.Contains(except, name) {
			names[name] = "" // no secret is empty
		}
	}
	return names
}

// take finds the secrets of the server and the variables for them.
func (f *foundServer) take(c *comparison, names map[string]string) {
	f.secrets = f.server.Secrets(names)
	for _, secret := range f.secrets {
		f.Secrets = append(f.Secrets, foundSecret{secret.Where, secret.Variable})
		c.chosen[secret.Variable] = names[secret.Variable]
	}
}

// waiting finds out whether the configuration has the server as disabled because of
// variables that are not set here.
func (f *foundServer) waiting(had *clientconfig.Server) {
	if !had.Disabled || f.server.Disabled {
		return
	}
	for _, name := range had.Needs() {
		if _, ok := os.LookupEnv(name); !ok {
			f.needs, f.waits = append(f.needs, name), true
		}
	}
}

// compare is clientconfig.Compare, except that it is no difference if the server waits for
// variables.
func (f *foundServer) compare(c *comparison, had, s *clientconfig.Server) []clientconfig.Difference {
	different := clientconfig.Compare(had, s, c.home)
	if f.waits {
		different = slices.DeleteFunc(different, func(d clientconfig.Difference) bool { return d.Setting == "disabled" })
	}
	if len(different) == 0 {
		return nil
	}
	return different
}

// match reports whether the configuration has the server with references in place of its
// secrets, and returns the names that are in use for the others; see names.
func (f *foundServer) match(c *comparison, had *clientconfig.Server) (names map[string]string, matches bool) {
	uses := had.Uses()
	names = c.names(f.server, uses)
	for range 2 {
		for i, reference := range []func(clientconfig.Secret) string{variableReference, keyringReference} {
			replaced, known := f.server.Clone(), maps.Clone(names)
			secrets := replaced.Secrets(known)
			replaced.Replace(secrets, reference)
			different := f.compare(c, had, replaced)
			if different == nil {
				f.Differences, f.inVariables = nil, i == 0
				return names, true
			}
			if len(different) < len(f.Differences) { // the configuration has its secrets in that form
				f.Differences = different
			}
		}
		// It may have been imported when its first choice of a name was in use.
		for _, secret := range f.server.Clone().Secrets(maps.Clone(names)) {
			if !slices.Contains(uses, secret.Variable) {
				names[secret.Variable] = ""
			}
		}
	}
	elsewhere := slices.ContainsFunc(f.Differences, func(d clientconfig.Difference) bool {
		return slices.Contains([]string{"transport", "command", "args", "url"}, d.Setting)
	})
	if elsewhere { // what the variables hold is for another program or address
		uses = nil
	}
	return c.names(f.server, uses), false
}

// commandProblem says if the program of a server is not there.
func commandProblem(s *clientconfig.Server) string {
	if s.Transport != config.Stdio || strings.Contains(s.Command, "${") || strings.HasPrefix(s.Command, "~") {
		return ""
	}
	if _, err := exec.LookPath(s.Command); err == nil || errors.Is(err, exec.ErrDot) {
		return ""
	}
	if filepath.IsAbs(s.Command) {
		return fmt.Sprintf("there is no program %s", s.Command)
	}
	return fmt.Sprintf("there is no %s in PATH (install it)", s.Command)
}
