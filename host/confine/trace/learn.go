package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Proposal is a sandbox for a server, made from a single run. A server with other actions in
// another run needs more.
type Proposal struct {
	Settings confine.Settings
	// Notes describe the events that are not in the settings.
	Notes []string
}

// PresetOf guesses the preset for a command.
func PresetOf(command string) confine.Preset {
	name := strings.TrimRight(filepath.Base(command), "0123456789.")
	switch name {
	case "node", "npx", "npm", "tsx", "bun", "bunx", "deno":
		return confine.Node
	case "python", "uv", "uvx", "pipx", "pypy":
		return confine.Python
	}
	return confine.Go
}

// Propose makes a proposal for a server started at a place.
func Propose(events []Event, preset confine.Preset, at confine.Place) (Proposal, error) {
	p := Proposal{Settings: confine.Settings{Presets: []confine.Preset{preset}, Network: confine.NetworkNone}}
	s := &p.Settings
	allows, err := s.Allows(at)
	if err != nil {
		return p, err
	}
	f := &files{own: at.Own, home: at.Home(), allows: allows}
	ports, listens, calls := map[uint16]bool{}, map[uint16]bool{}, map[string]bool{}
	internet := false
	for _, e := range events {
		if e.Errno != "" {
			continue
		}
		switch e.Kind {
		case ReadFile, WriteFile, ExecuteFile:
			f.add(e)
		case Connect, Listen:
			transport, address, _ := strings.Cut(e.Object, " ")
			switch port := portOf(address); {
			case transport == "unix":
				s.Unix = true
				p.note("it uses the socket %s: unix = true allows the sockets of all programs", address)
			case transport == "udp":
				s.UDP, internet = true, true
			case e.Kind == Connect && port == 0: // the server asks for the address to connect from
			case e.Kind == Connect:
				ports[port], internet = true, true
			case port == 0:
				p.note(`it listens on any free port: only network = "all" allows that`)
				internet = true
			default:
				listens[port], internet = true, true
			}
		case Call:
			calls[e.Object] = true
		case Omitted:
			p.note("it did more than the record holds: the proposal lacks the rest")
		}
	}
	if internet {
		s.Network, s.Ports, s.Listen = confine.NetworkPorts, slices.Sorted(maps.Keys(ports)), slices.Sorted(maps.Keys(listens))
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if confine.IsOptional(name) {
			s.AllowSyscalls = append(s.AllowSyscalls, name)
		} else {
			p.note("it uses the system call %s, which stays refused: see with \"sandbox try\" whether it works without", name)
		}
	}
	s.Read, s.Write, s.Exec = f.folders()
	if i := slices.IndexFunc(s.Write, func(path string) bool { return covered(path, sharedPrograms(f.home)) }); i >= 0 {
		p.note("it writes to %s, from which other servers may be executed, too: give it a cache of its own (docs/confined.md, Presets)", s.Write[i])
	}
	for _, own := range f.seenOwn {
		p.note("it used %s, which belongs to mcp-metatool, and stays refused", own)
	}
	return p, nil
}

// sharedPrograms are the folders into which npx, uvx and pipx install programs of all servers.
func sharedPrograms(home string) (list []string) {
	for _, dir := range []string{".npm", ".cache/uv", ".local/share/uv", ".local/share/pipx"} {
		list = append(list, filepath.Join(home, dir))
	}
	return list
}

func (p *Proposal) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(p.Notes, note) {
		p.Notes = append(p.Notes, note)
	}
}

// portOf returns the port of an address, or 0.
func portOf(address string) uint16 {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.ParseUint(text, 10, 16)
	return uint16(port)
}

// Table returns the table of the configuration for settings, without defaults.
func Table(s *confine.Settings) tomldoc.InlineTable {
	var t tomldoc.InlineTable
	add := func(key string, value any) { t = append(t, tomldoc.Entry{Key: key, Value: value}) }
	presets := make([]string, len(s.Presets))
	for i, p := range s.Presets {
		presets[i] = string(p)
	}
	switch len(presets) {
	case 0:
	case 1:
		add("preset", presets[0])
	default:
		add("preset", presets)
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", s.Read}, {"write", s.Write}, {"exec", s.Exec}} {
		if len(list.paths) > 0 {
			add(list.key, escaped(list.paths))
		}
	}
	if s.NetworkOrNone() == confine.NetworkPorts {
		add("network", numbers(s.Ports))
		if len(s.Listen) > 0 {
			add("listen", numbers(s.Listen))
		}
		if s.UDP {
			add("udp", true)
		}
	} else {
		add("network", string(s.NetworkOrNone()))
	}
	if s.Unix {
		add("unix", true)
	}
	if len(s.AllowSyscalls) > 0 {
		add("allow_syscalls", s.AllowSyscalls)
	}
	return t
}

// escaped escapes ${ in paths, so that the configuration takes ${ literally.
func escaped(paths []string) []string {
	list := make([]string, len(paths))
	for i, path := range paths {
		list[i] = strings.ReplaceAll(path, "${", "$${")
	}
	return list
}

func numbers(ports []uint16) []any {
	list := make([]any, len(ports))
	for i, p := range ports {
		list[i] = int64(p)
	}
	return list
}

// compareRefusals sorts refusals.
func compareRefusals(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Program, b.Program))
}
