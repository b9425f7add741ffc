package smoke

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// File is a file of checks that has been read.
type File struct {
	// Path as it was named.
	Path string
	// Config are the settings in it, and those of the environment.
	Config *config.Config
	Checks []*Check
	// Timeout is that of checks which say nothing of it, Startup how long
	// servers may take until they are there.
	Timeout, Startup time.Duration

	// unset says why upstreams cannot be used, by name: they want variables that
	// are not set. Checks with mocks can do without.
	unset map[string]error

	ownTimeout bool   // Timeout is the file's
	outside    bool   // what it names may be anywhere
	offline    bool   // see LoadOptions
	data       []byte // what was read
}

// LoadOptions say what a file of checks may do.
type LoadOptions struct {
	Load config.LoadOptions
	// Outside lets files name others that are not below their folders.
	Outside bool
	// Offline is for files from untrusted sources: no server is started or connected to, no
	// variable of the environment and no saved tool is read, and the limits are no
	// wider than the defaults.
	Offline bool
}

// Load reads a file. The error is one or more *config.Problem, joined.
func Load(path string, opts LoadOptions) (*File, error) {
	data, err := config.ReadFile(opts.Load, path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, opts)
}

// Parse is Load for content that was read already. Files that the content names
// are not looked at, but for JSON Schemas. data is kept.
func Parse(path string, data []byte, opts LoadOptions) (*File, error) {
	f := &File{
		Path: path, Timeout: DefaultTimeout, Startup: DefaultStartup, data: data, unset: map[string]error{},
		outside: opts.Outside, offline: opts.Offline,
	}
	r := &fileReader{opts: opts, file: f, dir: filepath.Dir(path)}
	load := opts.Load
	load.Unset = func(upstream string, p *config.Problem) {
		if f.unset[upstream] == nil {
			f.unset[upstream] = p
		}
	}
	if opts.Offline {
		load.Getenv = noVariables
	}
	cfg, err := config.LoadWithin(load, path, data, r.read)
	if err != nil && opts.Offline {
		return nil, explainOffline(err)
	}
	if err != nil {
		return nil, err
	}
	if opts.Offline {
		cfg.Execution.LowerToDefaults()
	}
	f.Config = cfg
	if err := r.together(); err != nil {
		return nil, err
	}
	return f, nil
}

// fileReader is one reading of a file.
type fileReader struct {
	opts  LoadOptions
	file  *File
	dir   string
	check *Check // that is being read
}

func (r *fileReader) read(top *config.Section) {
	if s := top.Section("smoke"); s != nil {
		r.file.ownTimeout = s.Duration("timeout", &r.file.Timeout, minTime, maxTime)
		s.Duration("startup_timeout", &r.file.Startup, minTime, maxTime)
		s.Close(map[string]string{"startup": "startup_timeout", "startupwait": "startup_timeout"})
	}
	sections := top.Sections("check")
	if !top.Has("check") {
		top.Problem("", "has no checks (write at least one: [[check]])")
	}
	for i, s := range sections {
		r.file.Checks = append(r.file.Checks, r.readCheck(s, i))
	}
}

// context is what ends the reading of files.
func (r *fileReader) context() context.Context {
	if r.opts.Load.Context == nil {
		return context.Background()
	}
	return r.opts.Load.Context
}

// together looks for what is wrong between checks and upstreams.
func (r *fileReader) together() error {
	servers := map[string]bool{}
	var names []string
	for _, u := range r.file.Config.Upstreams {
		servers[u.Name] = !u.Disabled
		names = append(names, u.Name)
	}
	for _, c := range r.file.Checks {
		if c.Server == "" || servers[c.Server] {
			continue
		}
		problem := &config.Problem{File: r.file.Path, Line: c.Line, Column: c.Column, Key: c.label() + ": server"}
		if _, there := servers[c.Server]; there {
			problem.Text = fmt.Sprintf("upstream %q is disabled", c.Server)
		} else {
			problem.Text = fmt.Sprintf("there is no [upstream.%s]%s", c.Server, hint(c.Server, names))
		}
		return problem
	}
	return nil
}

// path is the path of a file that the file of checks names under a key: absolute,
// or relative as the file itself is. Unless that is allowed, it has to be below the
// file's folder.
func (r *fileReader) path(s *config.Section, key, name string) string {
	name = filepath.FromSlash(name)
	if !r.opts.Outside && name != "" && !filepath.IsLocal(name) {
		s.Problem(key, "is not below the folder of the file (move it there, or give --allow-outside if you trust the file)")
		return ""
	}
	return r.join(name)
}

func (r *fileReader) join(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

// place is where a file is that path has returned.
func (f *File) place(path string) regular.Place {
	dir := filepath.Dir(f.Path)
	if f.outside {
		return regular.Place{Name: path}
	}
	name, err := filepath.Rel(dir, path)
	if err != nil { // path has joined them
		name = path
	}
	return regular.Place{Folder: dir, Name: name}
}

// reserved are the endings of TOML files that hold no checks.
var reserved = []string{".cassette.toml", ".lock.toml"}

// Files are the files of checks that arguments name: files as they are, and of
// a directory all *.toml in it, by name, but for cassettes and locks.
func Files(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arg, reason(err))
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := inDirectory(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

func inDirectory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, reason(err))
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && holdsChecks(e.Name()) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s: there is no file of checks in it (*.toml, without cassettes and locks)", dir)
	}
	return files, nil
}

func holdsChecks(name string) bool {
	if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") {
		return false
	}
	for _, r := range reserved {
		if strings.HasSuffix(name, r) {
			return false
		}
	}
	return true
}

// reason is an error of the file system without the operation and the name.
func reason(err error) error {
	if pe, ok := err.(*fs.PathError); ok { // as os returns it
		return pe.Err
	}
	return err
}
