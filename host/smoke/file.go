package smoke

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// File is a file of checks.
type File struct {
	// Path is the path as the caller wrote the path.
	Path string
	// Config is the configuration in the file, with the configuration of the environment.
	Config *config.Config
	Checks []*Check // in the order in which they run: setup, checks, teardown
	// Profiles are the names of the file's profiles.
	Profiles []string
	// Timeout limits checks without their own timeout. Startup is how long servers may take to
	// start.
	Timeout, Startup time.Duration

	// unset has, by upstream, the missing variables for which the upstream cannot be used. Checks
	// with mocks do not need unset.
	unset map[string]error

	// The values of references: variables, and values that checks capture.
	vars     map[string]value
	captures map[string]*producer

	tags     []string // of all checks of the file
	extends  string   // path of the configuration; "" for none
	rowFiles []string // files of rows
	reader   *fileReader

	ownTimeout bool   // Timeout is set in the file
	verifyPins bool   // the servers have to be as they were pinned
	outside    bool   // files named in the file may be anywhere
	offline    bool   // see LoadOptions
	data       []byte // content
}

// LoadOptions are the permissions of a file of checks.
type LoadOptions struct {
	Load config.LoadOptions
	// Outside lets a file name files outside its own folder.
	Outside bool
	// Offline is for files from untrusted sources: no server is started or connected to, no
	// environment variable and no saved tool is read, and the limits are at most the
	// defaults.
	Offline bool
	// Config is the path of a configuration that replaces the file's own; "": no replacement.
	Config string
	// Profile is the profile in use; "" for none.
	Profile string
	// Vars are variables, as JSON, that replace the variables of the file.
	Vars map[string][]byte
}

// Load reads a file. The error is a joined list of *config.Problem.
func Load(path string, opts LoadOptions) (*File, error) {
	data, err := config.ReadFile(opts.Load, path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, opts)
}

// Parse is Load for content in memory. Of the files named in the content, Parse reads only JSON
// Schemas, rows and the configuration. The result keeps data.
func Parse(path string, data []byte, opts LoadOptions) (*File, error) {
	f, err := parse(path, data, opts)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// parse is Parse, but also returns a file with problems, as far as readable.
func parse(path string, data []byte, opts LoadOptions) (*File, error) {
	f := &File{
		Path: path, Timeout: DefaultTimeout, Startup: DefaultStartup, data: data, unset: map[string]error{},
		vars: map[string]value{}, captures: map[string]*producer{}, outside: opts.Outside, offline: opts.Offline,
	}
	r := &fileReader{opts: opts, file: f, dir: filepath.Dir(path)}
	f.reader = r
	r.opts.Load.Unset = func(upstream string, p *config.Problem) {
		if f.unset[upstream] == nil {
			f.unset[upstream] = p
		}
	}
	r.opts.Load.Policies = compile.Policy
	if opts.Offline {
		r.opts.Load.Getenv = noVariables
	}
	cfg, err := config.LoadWithin(r.opts.Load, path, data, r.read)
	if err != nil && opts.Offline {
		return f, explainOffline(err)
	}
	if err != nil {
		return f, err
	}
	if opts.Offline {
		cfg.Execution.LowerToDefaults()
	}
	f.Config = cfg
	return f, r.crossCheck()
}

// fileReader reads a file.
type fileReader struct {
	opts LoadOptions
	file *File
	dir  string

	check   *Check // the check being read
	planned *Check // the check as first read; nil during the first reading
	// snapshots has the check of each snapshot, by its name in lower case, since some systems do
	// not distinguish cases.
	snapshots map[string]string
}

func (r *fileReader) read(top *config.Section) {
	r.settings(top)
	if !top.Has("check") {
		top.Problem("", "has no checks (write at least one: [[check]])")
	}
	var tables []*source
	for _, phase := range []Phase{Setup, Main, Teardown} {
		for i, s := range top.Sections(phase.key()) {
			from := &source{section: s, phase: phase, index: i, order: len(tables)}
			s.Name(from.label())
			tables = append(tables, from)
			r.announce(from)
		}
	}
	for _, from := range tables {
		r.readTable(from)
	}
}

// announce records the captures of the check in a table.
func (r *fileReader) announce(from *source) {
	if !from.section.IsTable("capture") {
		return
	}
	line, _ := from.section.Place("")
	for _, name := range from.section.Section("capture").Keys() {
		if before, taken := r.file.captures[name]; taken {
			from.section.Problem("capture."+name, "is also captured on line %d (give one of them another name)", before.line)
			continue
		}
		r.file.captures[name] = &producer{order: from.order, line: line}
	}
}

// readTable reads a table: a check, or a check for each of its rows.
func (r *fileReader) readTable(from *source) {
	for _, row := range r.rows(from.section) {
		one := *from
		one.row = row
		c := r.readFilled(&one)
		r.file.Checks = append(r.file.Checks, c)
		for _, p := range c.captures {
			if at := r.file.captures[p.name]; at != nil && at.order == from.order {
				at.check = c
			}
		}
	}
}

// context bounds the reading of files.
func (r *fileReader) context() context.Context {
	if r.opts.Load.Context == nil {
		return context.Background()
	}
	return r.opts.Load.Context
}

// crossCheck reports conflicts between checks and upstreams.
func (r *fileReader) crossCheck() error {
	var errs []error
	for _, c := range r.file.Checks {
		if problem := r.checkServer(c); problem != nil {
			errs = append(errs, problem)
		}
	}
	return errors.Join(errs...)
}

// checkServer reports a check of an unknown server.
func (r *fileReader) checkServer(c *Check) *config.Problem {
	if r.opts.Offline && r.file.extends != "" {
		return nil // the configuration's servers are not known
	}
	servers := map[string]bool{}
	var names []string
	for _, u := range r.file.Config.Upstreams {
		servers[u.Name] = !u.Disabled
		names = append(names, u.Name)
	}
	if c.Server == "" || servers[c.Server] || c.from.again && config.HasReferences(c.Server) {
		return nil
	}
	problem := &config.Problem{File: r.file.Path, Line: c.Line, Column: c.Column, Key: c.label() + ": server"}
	if _, there := servers[c.Server]; there {
		problem.Text = fmt.Sprintf("upstream %q is disabled", c.Server)
	} else {
		problem.Text = fmt.Sprintf("there is no [upstream.%s]%s", c.Server, hint(c.Server, names))
	}
	return problem
}

// path returns the path of a file that is named under a key: absolute, or relative like the path of
// the file of checks. The file must be below the folder of the file of checks, unless Outside is
// set.
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

// place returns the place of a file for a result of path.
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

// reserved are the endings of TOML files that do not hold checks.
var reserved = []string{".cassette.toml", ".lock.toml", rowsSuffix}

// Files returns the files of checks for arguments. A directory stands for all its *.toml files,
// sorted by name, except config.toml, cassettes, locks and rows.
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
		if !e.IsDir() && isCheckFile(e.Name()) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s: it contains no file of checks (*.toml, except config.toml, cassettes, locks and rows)", dir)
	}
	return files, nil
}

func isCheckFile(name string) bool {
	if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") {
		return false
	}
	if name == "config.toml" { // a configuration
		return false
	}
	for _, r := range reserved {
		if strings.HasSuffix(name, r) {
			return false
		}
	}
	return true
}

// reason returns an error of the file system without the operation and the path.
func reason(err error) error {
	if pe, ok := err.(*fs.PathError); ok { // not wrapped by package os
		return pe.Err
	}
	return err
}
