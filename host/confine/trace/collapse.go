package trace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
