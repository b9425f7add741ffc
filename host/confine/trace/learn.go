package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
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

// files collects the files used by a server, beyond the files granted to every server.
type files struct {
	own    []string // of mcp-metatool
	home   string
	allows func(path string, writes, executes bool) bool

	read, write, exec []string
	seenOwn           []string
}

// add adds the file of an event.
func (f *files) add(e Event) {
	path := e.Object
	if !filepath.IsAbs(path) || strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/pts/") || path == "/dev/tty" {
		return
	}
	if slices.ContainsFunc(f.own, func(own string) bool { return path == own || strings.HasPrefix(path, own+"/") }) {
		f.seenOwn = insert(f.seenOwn, path)
		return
	}
	if f.allows(path, e.Kind == WriteFile, e.Kind == ExecuteFile) {
		return
	}
	switch e.Kind {
	case ReadFile:
		f.read = insert(f.read, path)
	case WriteFile:
		if !temporary(path) {
			f.write = insert(f.write, f.writable(path, e.Folder))
		}
	default:
		f.exec = insert(f.exec, path)
	}
}

// temporary reports whether a path is in the folder for temporary files, which the sandbox replaces
// by a private folder.
func temporary(path string) bool {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	return err == nil && strings.HasPrefix(path, dir+"/") && filepath.Dir(path) == dir
}

// writable returns the path that must be writable for writing a file: the file's folder, since many
// programs write another file first and rename the file, unless the folder gives away too much.
func (f *files) writable(path string, folder bool) string {
	dir := filepath.Dir(path)
	if folder || broad(dir, f.home) {
		return path
	}
	return dir
}

// broad reports whether a folder has much more content than a single server should get.
func broad(dir, home string) bool {
	if strings.Count(dir, "/") < 2 || slices.Contains([]string{"/var/lib", "/var/log"}, dir) {
		return true
	}
	if home == "" {
		return false
	}
	shared := []string{home}
	for _, sub := range []string{".config", ".cache", ".local", ".local/share", ".local/state"} {
		shared = append(shared, filepath.Join(home, sub))
	}
	return slices.Contains(shared, dir) || strings.HasPrefix(home, dir+"/")
}

// folders returns the paths for read, write and exec.
func (f *files) folders() (read, write, exec []string) {
	write = cover(f.write)
	var rest []string
	for _, path := range f.read {
		path = module(path)
		if !covered(path, write) {
			rest = insert(rest, path)
		}
	}
	read = cover(f.gather(rest))
	return read, write, cover(f.exec)
}

// module returns the folder of modules of a file, or the file itself.
func module(path string) string {
	for _, name := range []string{"/node_modules", "/site-packages", "/dist-packages"} {
		if before, _, ok := strings.Cut(path, name+"/"); ok {
			return before + name
		}
	}
	return path
}

// many is from how many files on a folder is named in their place.
const many = 3

// gather replaces many files in a folder by the folder.
func (f *files) gather(paths []string) []string {
	count := map[string]int{}
	for _, path := range paths {
		count[filepath.Dir(path)]++
	}
	var list []string
	for _, path := range paths {
		if dir := filepath.Dir(path); count[dir] >= many && !broad(dir, f.home) {
			path = dir
		}
		list = insert(list, path)
	}
	return list
}

// cover returns sorted paths without the paths below another path.
func cover(paths []string) []string {
	var list []string
	for _, path := range paths { // sorted, so that a folder precedes the folder's entries
		if !covered(path, list) {
			list = append(list, path)
		}
	}
	return list
}

// covered reports whether a path is a folder in folders, or below a folder in folders.
func covered(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// insert adds a path to a sorted list, once.
func insert(list []string, path string) []string {
	if i, found := slices.BinarySearch(list, path); !found {
		return slices.Insert(list, i, path)
	}
	return list
}
