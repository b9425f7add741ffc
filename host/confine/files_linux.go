package confine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// files returns the grants of a server, each path once and without symbolic links.
func (s *Settings) files(at Place) ([]grant, error) {
	merged := map[string]right{}
	add := func(list []grant) {
		for _, g := range list {
			merged[g.path] |= g.right
		}
	}
	follow, err := s.follower()
	if err != nil {
		return nil, err
	}
	all := resolved(at.Own)
	for _, g := range s.grants(at.Env, follow) {
		path, err := follow(g.path)
		if err != nil {
			continue // the path does not exist, or the server may have changed the path's target
		}
		add(hide(grant{path: path, right: g.right}, all))
	}
	program, err := s.program(at)
	if err != nil {
		return nil, err
	}
	add(program)
	named, err := s.named(follow)
	if err != nil {
		return nil, err
	}
	own := unnamed(all, named)
	guarded := own
	if program, err := os.Executable(); err == nil { // with which servers are confined
		guarded = append(slices.Clone(own), resolved([]string{program})...)
	}
	for _, g := range named {
		if inside := below(guarded, g.path); inside != "" && g.right&write != 0 {
			return nil, fmt.Errorf("%s in the sandbox is %s, which has %s of mcp-metatool in it (name folders without it, or move it)", g.key, g.path, inside)
		}
		add(hide(g, own))
	}
	list := make([]grant, 0, len(merged))
	for path, r := range merged {
		list = append(list, grant{path: path, right: r})
	}
	slices.SortFunc(list, func(a, b grant) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

// program returns the grants for starting the server's program.
func (s *Settings) program(at Place) ([]grant, error) {
	path, err := filepath.Abs(at.Path)
	if err != nil {
		return nil, err
	}
	var list []grant
	for _, path := range append([]string{path}, interpreter(path, at.Env)...) {
		real, err := canonical(path)
		if err != nil {
			return nil, fmt.Errorf("the program of the server: %w", err)
		}
		list = append(list, grant{path: real, right: read | execute})
	}
	return list, nil
}

// named returns the grants named in the settings.
func (s *Settings) named(follow func(string) (string, error)) ([]grant, error) {
	list := []grant{}
	add := func(paths []string, key string, r right) error {
		for _, path := range paths {
			real, err := follow(path)
			if err != nil {
				return pathError(key, path, err)
			}
			list = append(list, grant{real, r, key})
		}
		return nil
	}
	err := errors.Join(add(s.Write, "write", read|write), add(s.Read, "read", read), add(s.Exec, "exec", read|execute))
	return list, err
}

// pathError is the error for a path of the settings.
func pathError(key, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s in the sandbox: there is no %s (create it, or leave it out)", key, path)
	}
	return fmt.Errorf("%s in the sandbox: %w", key, err)
}

// maxLinks is how many symbolic links a path may have, as in the kernel.
const maxLinks = 40

// follower returns a function that returns a path without symbolic links. The function follows no
// link in a folder that the server may write: the server may have made the link after the last
// start, and would choose the grants of the next start.
func (s *Settings) follower() (func(path string) (string, error), error) {
	writable, err := s.writable()
	if err != nil {
		return nil, err
	}
	return func(path string) (string, error) {
		if path == ownProc {
			return path, nil
		}
		real, rest, links := "/", path, 0
		for rest != "" {
			name, tail, _ := strings.Cut(rest, "/")
			rest = tail
			next := filepath.Join(real, name) // real has no links, so .. is real's parent
			info, err := os.Lstat(next)
			if err != nil {
				return "", err
			}
			if info.Mode()&fs.ModeSymlink == 0 {
				real = next
				continue
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if slices.ContainsFunc(writable, func(dir string) bool { return real == dir || within(real, dir) }) {
				return "", &plantedError{path, next, target}
			}
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
			}
			if filepath.IsAbs(target) {
				real = "/"
			}
			rest = target + "/" + rest
		}
		return real, nil
	}, nil
}

// writable returns the folders that the server may write, without symbolic links.
func (s *Settings) writable() ([]string, error) {
	var list []string
	for _, path := range s.Write {
		real, err := canonical(path)
		if err != nil {
			return nil, pathError("write", path, err)
		}
		list = append(list, real)
	}
	return list, nil
}

// plantedError is the error for a path with a symbolic link that the server may have made.
type plantedError struct{ path, link, target string }

func (e *plantedError) Error() string {
	return fmt.Sprintf("%s leads to %s by a symbolic link in a folder that the server may write, %s (name the target)", e.path, e.target, e.link)
}

// ownProc stays unchanged, because the server has another /proc/self.
const ownProc = "/proc/self"

// canonical returns a path without symbolic links.
func canonical(path string) (string, error) {
	if path == ownProc {
		return path, nil
	}
	return filepath.EvalSymlinks(path)
}

// resolved returns paths without symbolic links. A missing path may be created later, so the
// existing part of the path is resolved.
func resolved(paths []string) []string {
	list := make([]string, len(paths))
	for i, path := range paths {
		rest := ""
		for {
			real, err := canonical(path)
			if err == nil || path == "/" || path == "." {
				list[i] = filepath.Join(real, rest)
				break
			}
			rest = filepath.Join(filepath.Base(path), rest)
			path = filepath.Dir(path)
		}
	}
	return list
}

// unnamed returns the files of ours that the settings do not name themselves. Naming a file in a
// folder of ours allows only the named file.
func unnamed(own []string, named []grant) []string {
	return slices.DeleteFunc(slices.Clone(own), func(path string) bool {
		return slices.ContainsFunc(named, func(g grant) bool { return g.path == path })
	})
}

// within reports whether path is below dir.
func within(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir
}

// below returns a path that is dir or below dir; "" for none.
func below(paths []string, dir string) string {
	for _, path := range paths {
		if path == dir || within(path, dir) {
			return path
		}
	}
	return ""
}

// hide returns grants that add up to g without files of ours. A folder with a file of ours becomes
// the list of the folder's current entries; a right to the folder would include our file.
func hide(g grant, own []string) []grant {
	if below(own, g.path) == "" {
		return []grant{g}
	}
	if slices.Contains(own, g.path) {
		return nil
	}
	entries, err := os.ReadDir(g.path)
	if err != nil {
		return nil
	}
	var list []grant
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // the target needs a grant of its own
		}
		list = append(list, hide(grant{path: filepath.Join(g.path, e.Name()), right: g.right, key: g.key}, own)...)
	}
	return list
}

// Allows returns a function that reports whether the files of the settings include a path, for
// reading, writing or executing.
func (s *Settings) Allows(at Place) (func(path string, writes, executes bool) bool, error) {
	grants, err := s.files(at)
	if err != nil {
		return nil, err
	}
	return func(path string, writes, executes bool) bool {
		need := read
		switch {
		case writes:
			need = write
		case executes:
			need = execute
		}
		return slices.ContainsFunc(grants, func(g grant) bool {
			return (g.path == path || within(path, g.path)) && (g.right&need != 0 || need == read)
		})
	}, nil
}
