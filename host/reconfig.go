package host

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// reloading makes one Reload at a time.
type reloading struct {
	sync.Mutex
	refused atomic.Pointer[string]
}

// RefusedReload keeps why the configuration could not be reloaded, for clients and people; "" after
// a successful reload. The text must have no secrets.
func (h *Host) RefusedReload(why string) { h.reloading.refused.Store(&why) }

// refusedFor returns the message about a refused reload; "" after a successful reload. Clients with
// narrowed rights do not get the reason, which can name hidden servers.
func (r *reloading) refusedFor(of *bearer.Rights) string {
	why := r.refused.Load()
	if why == nil || *why == "" {
		return ""
	}
	reason := display.ClipSize(*why, 1000)
	if of.View() != "" {
		reason = "the log says why"
	}
	return "the configuration has changed, but is not in use: " + reason
}

// Changes are the differences of a configuration from the previous configuration: names of
// upstreams and settings, without values.
type Changes struct {
	// Upstreams are the changed upstreams, in the order of the new configuration, with removed
	// upstreams last.
	Upstreams []UpstreamChange
	// Settings are the applied settings, and Restart the settings that need a restart, with TOML
	// names: "execution.timeout".
	Settings, Restart []string
}

// UpstreamChange is a change of one upstream.
type UpstreamChange struct {
	Name string
	Kind ChangeKind
	// Settings are the TOML names of the changed settings, for example "env"; none for an added or
	// removed upstream.
	Settings []string
}

// ChangeKind is the kind of change of an upstream.
type ChangeKind string

// The kinds.
const (
	UpstreamAdded    ChangeKind = "added"    // or no longer disabled
	UpstreamRemoved  ChangeKind = "removed"  // or disabled
	UpstreamReplaced ChangeKind = "replaced" // restarted, for instance with another command
	UpstreamAdjusted ChangeKind = "adjusted" // still running, for instance with another prefix
)

// Lines returns the changes for people, one line each.
func (c Changes) Lines() []string {
	var lines []string
	for _, u := range c.Upstreams {
		line := fmt.Sprintf("upstream %q: %s", u.Name, u.Kind)
		if len(u.Settings) > 0 {
			line += fmt.Sprintf(" (%s)", strings.Join(u.Settings, ", "))
		}
		lines = append(lines, line)
	}
	for _, s := range c.Settings {
		lines = append(lines, s+": changed")
	}
	for _, s := range c.Restart {
		lines = append(lines, s+": needs a restart")
	}
	return lines
}

// compareConfigs returns the differences of next from old, and the configuration to apply: next,
// with the settings of old that cannot change at run time.
func compareConfigs(clients supervise.Clients, old, next *config.Config) (Changes, *config.Config) {
	c := Changes{Upstreams: compareUpstreams(clients, old, next)}
	adopted := *old // settings that are not listed here need a restart
	adopted.Path, adopted.Searched, adopted.Secrets = next.Path, next.Searched, next.Secrets
	adopted.Upstreams, adopted.Builtins, adopted.Plan, adopted.Durable, adopted.Flow = next.Upstreams, next.Builtins, next.Plan, next.Durable, next.Flow
	adopted.StartupWait, adopted.InputTimeout, adopted.Debug = next.StartupWait, next.InputTimeout, next.Debug
	if len(differences("policy.", old.Policy, next.Policy)) > 0 { // otherwise the old policy keeps its decisions
		adopted.Policy = next.Policy
	}
	adopted.Pins, adopted.PinsFile = next.Pins, next.PinsFile
	adopted.Execution, adopted.Approval = next.Execution, next.Approval
	adopted.Execution.MaxConcurrent, adopted.Execution.MaxQueued = old.Execution.MaxConcurrent, old.Execution.MaxQueued
	adopted.Execution.MaxTotalMemory = old.Execution.MaxTotalMemory
	adopted.Journal = next.Journal
	adopted.Journal.Enabled, adopted.Journal.Dir = old.Journal.Enabled, old.Journal.Dir
	if len(old.Store.Keys) > 0 && len(next.Store.Keys) > 0 { // so that a fleet can get a new key without downtime
		adopted.Store.Keys = next.Store.Keys
	}
	adopted.HTTP.AllowedOrigins, adopted.HTTP.AllowedHosts = next.HTTP.AllowedOrigins, next.HTTP.AllowedHosts
	// Whether everyone may connect was decided with the listening address.
	if len(old.HTTP.Tokens) == 0 || len(next.HTTP.Tokens) > 0 {
		adopted.HTTP.Tokens = next.HTTP.Tokens
	}

	c.Settings = differences("", *old, adopted)
	c.Restart = differences("", adopted, *next)
	if clients != supervise.ManyClients { // without an HTTP server
		isHTTP := func(s string) bool { return strings.HasPrefix(s, "http.") }
		c.Settings, c.Restart = slices.DeleteFunc(c.Settings, isHTTP), slices.DeleteFunc(c.Restart, isHTTP)
	}
	return c, &adopted
}

// brokenUpstreams returns the mistakes in entries of upstreams that were right in old; nil for
// none.
func brokenUpstreams(old, next *config.Config) error {
	right := map[string]bool{}
	for _, u := range supervise.Enabled(old) {
		right[u.Name] = u.Invalid == nil
	}
	var errs []error
	for _, u := range supervise.Enabled(next) {
		if right[u.Name] && u.Invalid != nil {
			errs = append(errs, u.Invalid.Unwrap()...)
		}
	}
	return errors.Join(errs...)
}

// compareUpstreams returns the changes of upstreams.
func compareUpstreams(clients supervise.Clients, old, next *config.Config) []UpstreamChange {
	before := map[string]*config.Upstream{}
	for _, u := range supervise.Enabled(old) {
		before[u.Name] = u
	}
	var changes []UpstreamChange
	for _, u := range supervise.Enabled(next) {
		was := before[u.Name]
		delete(before, u.Name)
		if was == nil {
			changes = append(changes, UpstreamChange{Name: u.Name, Kind: UpstreamAdded})
			continue
		}
		settings := differences("", *was, *u)
		if len(settings) == 0 && !slices.Equal(was.References, u.References) {
			settings = []string{"references"} // a reference became the same text, or a text a reference
		}
		if len(settings) == 0 && !config.SameInvalid(was, u) {
			settings = []string{"mistakes"}
		}
		if len(settings) == 0 {
			continue
		}
		kind := UpstreamAdjusted
		if supervise.Restarts(clients, old, was, u) {
			kind = UpstreamReplaced
		}
		changes = append(changes, UpstreamChange{u.Name, kind, settings})
	}
	for _, u := range supervise.Enabled(old) {
		if before[u.Name] != nil {
			changes = append(changes, UpstreamChange{Name: u.Name, Kind: UpstreamRemoved})
		}
	}
	return changes
}

// differences returns the TOML names of the settings in which two structs of a
// configuration differ, prefixed with the name of their table.
func differences[T any](table string, a, b T) []string {
	return differ(table, reflect.ValueOf(a), reflect.ValueOf(b))
}

func differ(table string, a, b reflect.Value) []string {
	var keys []string
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || notSettings[field.Name] {
			continue
		}
		key := table + settingName(table, field.Name)
		if field.Type == reflect.TypeFor[config.Builtins]() {
			keys = append(keys, switched(key, a.Field(i).Interface().(config.Builtins), b.Field(i).Interface().(config.Builtins))...)
			continue
		}
		switch {
		case field.Type.Kind() == reflect.Struct:
			keys = append(keys, differ(key+".", a.Field(i), b.Field(i))...)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			keys = append(keys, key)
		}
	}
	return slices.Compact(keys)
}

// switched returns the TOML names of the switches in which two tables of built-in tools
// differ.
func switched(table string, a, b config.Builtins) []string {
	var keys []string
	for _, s := range config.BuiltinSwitches {
		if a.On(s.Key) != b.On(s.Key) {
			keys = append(keys, table+"."+s.Key)
		}
	}
	return keys
}

// notSettings are fields of the configuration that are not settings, or are compared separately.
var notSettings = map[string]bool{"Path": true, "Searched": true, "Secrets": true, "Upstreams": true, "References": true, "Invalid": true}

// settingName returns the TOML name of a field.
func settingName(table, field string) string {
	switch table + field {
	case "Debug":
		return "execution.debug"
	case "Dir":
		return "cwd"
	case "OAuth":
		return "oauth"
	case "http.CertFile", "store.CertFile":
		return "tls_cert"
	case "store.CAFile":
		return "tls_ca"
	case "policy.Rules":
		return "rule"
	case "http.KeyFile", "store.KeyFile":
		return "tls_key"
	}
	var b strings.Builder
	lower := false // the previous letter is lower case
	for _, r := range field {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
