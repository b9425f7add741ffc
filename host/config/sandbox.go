package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// The bounds of what a confined server may use. Less memory or fewer files than the least
// suffices for no known server; what is not set has no limit.
const (
	leastSandboxMemory = 16 << 20
	mostSandboxMemory  = 1 << 50
	mostSandboxTime    = 365 * 24 * time.Hour
	leastOpenFiles     = 16
	mostCount          = 1 << 20
)

// sandbox reads what a confined server may do; nil if there is no such table.
func (t *table) sandbox() *confine.Settings {
	sub := t.sub("sandbox")
	if sub == nil {
		return nil
	}
	sub.inherit(t)
	s := &confine.Settings{Network: confine.NetworkNone}
	sub.presets(s)
	s.Read, s.Write, s.Exec = sub.strs("read", sub.sandboxPath), sub.strs("write", sub.sandboxPath), sub.strs("exec", sub.sandboxPath)
	sub.network(s)
	s.Listen = sub.ports("listen", sub.get("listen", "an array of ports", kindArray))
	sub.boolean("udp", &s.UDP)
	sub.boolean("unix", &s.Unix)
	sub.size("memory", &s.Memory, leastSandboxMemory, mostSandboxMemory)
	sub.duration(sub.key("cpu_time"), &s.CPUTime, time.Second, mostSandboxTime)
	sub.count("processes", &s.Processes, 1, mostCount)
	sub.count(sub.key("open_files"), &s.OpenFiles, leastOpenFiles, mostCount)
	s.AllowSyscalls = sub.strs(sub.key("allow_syscalls"), sub.expandPublic)
	s.DenySyscalls = sub.strs(sub.key("deny_syscalls"), sub.expandPublic)
	sub.boolean(sub.key("best_effort"), &s.BestEffort)
	if key, text := s.Contradiction(); key != "" {
		sub.problem(key, "%s", text)
	}
	sub.close(sandboxAliases)
	return s
}

// sandboxAliases are other names for these settings.
var sandboxAliases = map[string]string{
	"presets": "preset", "profile": "preset", "readonly": "read", "ro": "read", "rw": "write", "readwrite": "write",
	"execute": "exec", "net": "network", "ports": "network", "cpu": "cpu_time", "pids": "processes", "nproc": "processes",
	"nofile": "open_files", "files": "open_files", "unixsockets": "unix", "besteffort": "best_effort",
}

// presets reads the presets: one string, or an array.
func (t *table) presets(s *confine.Settings) {
	const key = "preset"
	n := t.get(key, "a string or an array of strings", kindString, kindArray)
	if n == nil {
		return
	}
	items := []*node{n}
	if n.kind == kindArray {
		items = n.items
	}
	for i, item := range items {
		at := key
		if n.kind == kindArray {
			at = fmt.Sprintf("%s[%d]", key, i)
		}
		if !t.check(at, item, "a string", kindString) {
			continue
		}
		name, ok := t.expandPublic(at, item)
		switch {
		case !ok:
		case !slices.Contains(confine.Presets(), confine.Preset(name)):
			t.problem(at, "%s is not a preset (there are %s)", quoteWritten(item), presetNames())
		default:
			s.Presets = append(s.Presets, confine.Preset(name))
		}
	}
}

func presetNames() string {
	var names []string
	for _, p := range confine.Presets() {
		names = append(names, strconv.Quote(string(p)))
	}
	return strings.Join(names, ", ")
}

// sandboxPath reads one path of a list.
func (t *table) sandboxPath(key string, n *node) (string, bool) {
	name, ok := t.expandPublic(key, n)
	if ok && name == "" {
		t.problem(key, "is empty (name a file or folder, or leave it out)")
		return "", false
	}
	if !ok {
		return "", false
	}
	path := t.absolute(key, name)
	return path, path != ""
}

// network reads which connections the server may make: "none", "all", or an array of ports.
func (t *table) network(s *confine.Settings) {
	const key = "network"
	n := t.get(key, `"none", "all" or an array of ports`, kindString, kindArray)
	if n == nil {
		return
	}
	if n.kind == kindArray {
		s.Network, s.Ports = confine.NetworkPorts, t.ports(key, n)
		return
	}
	text, ok := t.expandPublic(key, n)
	switch network := confine.Network(text); {
	case !ok:
	case network == confine.NetworkNone || network == confine.NetworkAll:
		s.Network = network
	default:
		t.problem(key, `%s is unknown here (there are "none", "all", and arrays of ports such as [443])`, quoteWritten(n))
	}
}

// ports reads an array of ports.
func (t *table) ports(key string, n *node) []uint16 {
	if n == nil {
		return nil
	}
	ports := []uint16{}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		if !t.check(at, item, "a port", kindInteger) {
			continue
		}
		number, err := strconv.ParseUint(item.text, 10, 64)
		if err != nil || number < 1 || number > math.MaxUint16 {
			t.problem(at, "%s is not a port (from 1 to %d)", item.text, math.MaxUint16)
			continue
		}
		ports = append(ports, uint16(number))
	}
	return ports
}

// sandbox describes what a confined server may do.
func (d *description) sandbox(at string, s *confine.Settings) {
	if s == nil {
		return
	}
	at += "sandbox."
	var parts []string
	add := func(key, value string) { parts = append(parts, key+" "+value) }
	for _, p := range s.Presets {
		parts = append(parts, string(p))
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", s.Read}, {"write", s.Write}, {"exec", s.Exec}} {
		if len(list.paths) > 0 {
			add(list.key, d.list(at+list.key, list.paths, "nothing"))
		}
	}
	add("network", s.NetworkText())
	if s.Unix {
		parts = append(parts, "unix sockets")
	}
	if s.Memory > 0 {
		add("memory", units.FormatSize(s.Memory))
	}
	if s.CPUTime > 0 {
		add(d.c.key("cpu_time"), units.FormatDuration(s.CPUTime))
	}
	if s.Processes > 0 {
		add("processes", strconv.Itoa(s.Processes))
	}
	if s.OpenFiles > 0 {
		add(d.c.key("open_files"), strconv.Itoa(s.OpenFiles))
	}
	if len(s.AllowSyscalls) > 0 {
		add(d.c.key("allow_syscalls"), d.list(at+d.c.key("allow_syscalls"), s.AllowSyscalls, "none"))
	}
	if len(s.DenySyscalls) > 0 {
		add(d.c.key("deny_syscalls"), d.list(at+d.c.key("deny_syscalls"), s.DenySyscalls, "none"))
	}
	if s.BestEffort {
		parts = append(parts, d.c.key("best_effort"))
	}
	d.line("sandbox", strings.Join(parts, "; "))
}

// OwnFiles returns the files and folders of ours that a confined upstream does not get by
// accident, as absolute paths: the configuration and what belongs to it, the secrets of other
// upstreams, the store and its parts, the journal, and caches. They need not exist.
func (c *Config) OwnFiles(of *Upstream) []string {
	own := []string{c.Store.Dir, c.JournalDir(), filepath.Dir(c.TokenFile()), c.Policy.File, c.PinsPath(), c.HTTP.KeyFile, c.Journal.SignKeyFile}
	own = append(own, c.Store.Credentials, c.Store.NKey, c.Store.KeyFile)
	if path, err := filepath.Abs(c.Path); err == nil && c.Path != "" {
		own = append(own, path, filepath.Join(filepath.Dir(path), defaultPinsFile))
	}
	for _, path := range c.secretFiles {
		if !slices.ContainsFunc(of.References, func(r PlacedReference) bool { return r.Path == path }) {
			own = append(own, path)
		}
	}
	// Checks have a store of their own, but their servers must not get the user's either.
	if home, err := os.UserHomeDir(); err == nil {
		own = append(own, filepath.Join(home, ".mcp-metatool"))
	}
	if dir := os.Getenv(EnvDir); filepath.IsAbs(dir) {
		own = append(own, filepath.Clean(dir))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		own = append(own, filepath.Join(cache, "mcp-metatool"))
	}
	own = slices.DeleteFunc(own, func(path string) bool { return path == "" })
	slices.Sort(own)
	return slices.Compact(own)
}
