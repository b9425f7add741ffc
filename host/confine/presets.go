package confine

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Preset is a name for a group of settings.
type Preset string

// The presets. The first three add the files for servers of a kind, the other presets remove
// rights.
const (
	Node     Preset = "node"
	Python   Preset = "python"
	Go       Preset = "go"
	ReadOnly Preset = "read-only"
	Offline  Preset = "offline"
)

// Presets are all presets.
func Presets() []Preset { return []Preset{Node, Python, Go, ReadOnly, Offline} }

// right is a right to a file, or to everything in a folder.
type right uint8

const (
	read right = 1 << iota
	write
	execute
)

// grant is a right to a path. Grants of presets are skipped where the path does not exist.
type grant struct {
	path  string
	right right
	key   string // of the settings; "" for a preset
}

// everywhere are the grants that every program needs: libraries, the lookup of users, hosts and
// certificates, a few devices, and the kernel's description of the machine. The entries of /etc are
// listed individually, because /etc also has secrets.
var everywhere = []grant{
	{path: "/usr", right: read}, {path: "/bin", right: read}, {path: "/sbin", right: read},
	{path: "/lib", right: read}, {path: "/lib32", right: read}, {path: "/lib64", right: read}, {path: "/libx32", right: read},
	{path: "/nix/store", right: read | execute}, {path: "/gnu/store", right: read | execute},

	{path: "/etc/ld.so.cache", right: read}, {path: "/etc/ld.so.conf", right: read}, {path: "/etc/ld.so.conf.d", right: read},
	{path: "/etc/ld.so.preload", right: read}, {path: "/etc/ld-musl-x86_64.path", right: read}, {path: "/etc/ld-musl-aarch64.path", right: read},
	{path: "/etc/passwd", right: read}, {path: "/etc/group", right: read}, {path: "/etc/nsswitch.conf", right: read},
	{path: "/etc/resolv.conf", right: read}, {path: "/etc/hosts", right: read}, {path: "/etc/host.conf", right: read}, {path: "/etc/gai.conf", right: read},
	{path: "/etc/services", right: read}, {path: "/etc/protocols", right: read}, {path: "/etc/mime.types", right: read},
	{path: "/etc/localtime", right: read}, {path: "/etc/timezone", right: read}, {path: "/etc/os-release", right: read},
	{path: "/etc/alternatives", right: read}, {path: "/etc/locale.alias", right: read},
	{path: "/etc/ssl/certs", right: read}, {path: "/etc/ssl/cert.pem", right: read}, {path: "/etc/ssl/openssl.cnf", right: read},
	{path: "/etc/ca-certificates", right: read}, {path: "/etc/pki/tls/certs", right: read}, {path: "/etc/pki/ca-trust", right: read},
	{path: "/etc/crypto-policies", right: read},

	{path: "/dev/null", right: read | write}, {path: "/dev/zero", right: read | write}, {path: "/dev/full", right: read | write},
	{path: "/dev/random", right: read}, {path: "/dev/urandom", right: read},

	{path: "/proc/self", right: read}, {path: "/proc/cpuinfo", right: read}, {path: "/proc/meminfo", right: read}, {path: "/proc/stat", right: read},
	{path: "/proc/version", right: read}, {path: "/proc/uptime", right: read}, {path: "/proc/loadavg", right: read},
	{path: "/proc/filesystems", right: read}, {path: "/proc/sys", right: read}, {path: "/proc/vmstat", right: read},
	{path: "/sys/devices/system", right: read}, {path: "/sys/kernel/mm", right: read}, {path: "/sys/fs/cgroup", right: read},
}

// programs are the folders of programs that servers for an interpreter start: sh, env, and the
// interpreter itself.
var programs = []grant{
	{path: "/usr/bin", right: read | execute}, {path: "/bin", right: read | execute},
	{path: "/usr/local/bin", right: read | execute}, {path: "/usr/lib/node_modules", right: read | execute},
	{path: "/usr/local/lib/node_modules", right: read | execute}, {path: "/usr/share/nodejs", right: read | execute},
}

// loaders are patterns for the programs that start every other program. Executing a program
// includes executing the program's loader.
var loaders = []string{"/lib/ld-*.so*", "/lib64/ld-*.so*", "/lib32/ld-*.so*", "/lib/*/ld-*.so*", "/usr/lib/ld-*.so*"}

// grants returns the grants of the presets, for an environment. follow returns a path
// without symbolic links.
func (s *Settings) grants(env []string, follow func(string) (string, error)) []grant {
	list := append([]grant{}, everywhere...)
	for _, pattern := range loaders {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			list = append(list, grant{path: path, right: read | execute})
		}
	}
	home := variable(env, "HOME")
	add := func(r right, paths ...string) {
		for _, path := range paths {
			if rest, ok := strings.CutPrefix(path, "~/"); ok {
				if home == "" || !filepath.IsAbs(home) {
					continue
				}
				path = filepath.Join(home, rest)
			}
			list = append(list, grant{path: path, right: r})
		}
	}
	if s.has(Node) {
		list = append(list, programs...)
		// Packages installed by npx. They are not writable, because other servers run them, too.
		add(read|execute, "~/.npm/_npx")
		add(read|execute, installation(env, "node", follow)...)
	}
	if s.has(Python) {
		list = append(list, programs...)
		add(read|execute, "~/.pyenv", "~/.local/share/uv", "~/.cache/uv", "~/.local/share/pipx", "~/.local/pipx/venvs")
		add(read, "~/.local/lib")
		add(read|execute, installation(env, "python3", follow)...)
		add(read|execute, installation(env, "uvx", follow)...)
	}
	return list
}

// installation returns the folders of an interpreter that is in the PATH of an environment but not
// in a folder of the system: the folders of the interpreter's links, and the folder of the file
// itself. A binary in DIR/bin belongs to DIR, unless DIR is the home directory or another folder
// with more than an installation.
func installation(env []string, program string, follow func(string) (string, error)) []string {
	home := variable(env, "HOME")
	shared := func(dir string) bool {
		return filepath.Dir(dir) == "/" || strings.HasSuffix(dir, "/.local") || dir == home || strings.HasPrefix(home, dir+"/")
	}
	var folders []string
	for _, dir := range filepath.SplitList(variable(env, "PATH")) {
		path := filepath.Join(dir, program)
		if !filepath.IsAbs(path) || strings.HasPrefix(path, "/usr/") {
			continue
		}
		real, err := follow(path)
		if err != nil {
			continue
		}
		folders = append(folders, path)
		parent := filepath.Dir(filepath.Clean(dir))
		if filepath.Base(dir) == "shims" && !shared(parent) { // scripts of pyenv, nodenv, asdf or mise, which choose a version
			return append(folders, parent)
		}
		if prefix, ok := strings.CutSuffix(filepath.Dir(real), "/bin"); ok && !shared(prefix) {
			folders = append(folders, prefix)
		} else {
			folders = append(folders, real)
		}
		break
	}
	return folders
}

// variable returns the value of a variable in an environment.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// interpreter returns the program named in the first line of a script, and the program that env
// starts; nil if path is no script.
func interpreter(path string, env []string) []string {
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := f.Read(b)
	line, ok := strings.CutPrefix(string(b[:n]), "#!")
	if !ok {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	found := fields[:1]
	if filepath.Base(fields[0]) != "env" {
		return found
	}
	for _, name := range fields[1:] {
		if strings.HasPrefix(name, "-") || strings.Contains(name, "=") { // an option, or a variable
			continue
		}
		if strings.Contains(name, "/") {
			break // no name to be looked up: the script must not choose any file
		}
		for _, dir := range filepath.SplitList(variable(env, "PATH")) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return append(found, filepath.Join(dir, name))
			}
		}
		break
	}
	return found
}
