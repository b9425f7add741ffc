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
	data       []byte // what was read
}

// Load reads a file. The error is one or more *config.Problem, joined.
func Load(path string, opts config.LoadOptions) (*File, error) {
	data, err := config.ReadFile(opts, path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, opts)
}

// Parse is Load for content that was read already. Files that the content names
// are not looked at, but for JSON Schemas. data is kept.
func Parse(path string, data []byte, opts config.LoadOptions) (*File, error) {
	f := &File{Path: path, Timeout: DefaultTimeout, Startup: DefaultStartup, data: data, unset: map[string]error{}}
	opts.Unset = func(upstream string, p *config.Problem) {
		if f.unset[upstream] == nil {
			f.unset[upstream] = p
		}
	}
	r := &fileReader{opts: opts, file: f, dir: filepath.Dir(path)}
	cfg, err := config.LoadWithin(opts, path, data, r.read)
	if err != nil {
		return nil, err
	}
	f.Config = cfg
	if err := r.together(); err != nil {
		return nil, err
	}
	return f, nil
}

// fileReader is one reading of a file.
type fileReader struct {
	opts  config.LoadOptions
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
	if r.opts.Context == nil {
		return context.Background()
	}
	return r.opts.Context
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

// path makes what a file names absolute, or relative as the file itself is.
func (r *fileReader) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
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
