package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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

// settings reads the settings outside of checks: [smoke], [profile.NAME] and [vars].
func (r *fileReader) settings(top *config.Section) {
	profile := r.profiles(top) // first: the values of variables are needed below
	if s := top.Section("smoke"); s != nil {
		r.file.ownTimeout = s.Duration("timeout", &r.file.Timeout, minTime, maxTime)
		s.Duration("startup_timeout", &r.file.Startup, minTime, maxTime)
		r.file.tags = readTags(s, "tags")
		r.readPins(s)
		r.base(s)
		s.Close(map[string]string{"startup": "startup_timeout", "startupwait": "startup_timeout", "configuration": "config", "tag": "tags"})
	} else {
		r.base(nil)
	}
	if r.file.extends != "" && !r.opts.Offline {
		top.Extend(r.opts.Load, r.file.extends)
	}
	r.vars(top.Section("vars"))
	r.vars(profile)
	maps.Copy(r.file.vars, r.given(top))
}

// base reads which configuration the file uses; s may be nil.
func (r *fileReader) base(s *config.Section) {
	if s != nil {
		if r.opts.Offline { // variables in the configuration's name are not needed
			s.Know("config")
			r.file.extends, _ = s.Verbatim("config")
		} else if path, ok := s.Path("config"); ok {
			r.file.extends = path
		}
	}
	if r.opts.Config != "" {
		r.file.extends = r.opts.Config
	}
}

// profiles reads the profiles. profiles sets the environment of the chosen profile and returns its
// variables, or nil.
func (r *fileReader) profiles(top *config.Section) (vars *config.Section) {
	all := top.Section("profile")
	if all == nil {
		return nil
	}
	r.file.Profiles = all.Keys()
	for _, name := range all.Keys() {
		p := all.Section(name)
		if p == nil {
			continue
		}
		env, own := p.Section("env"), p.Section("vars")
		p.Close(map[string]string{"environment": "env", "variables": "vars"})
		if name != r.opts.Profile {
			continue
		}
		if vars = own; env != nil {
			top.Variables(environment(env))
		}
	}
	if r.opts.Profile != "" && !slices.Contains(all.Keys(), r.opts.Profile) {
		all.Problem("", "there is no [profile.%s]%s", r.opts.Profile, hint(r.opts.Profile, all.Keys()))
	}
	return vars
}

// environment returns the variables of a profile. A variable that needs an unset variable is not
// set either.
func environment(s *config.Section) map[string]string {
	filled := s.Fill(config.Filling{Value: noReference})
	values := map[string]string{}
	for _, name := range s.Keys() {
		if text, ok := filled.String(name); ok {
			values[name] = text
		}
	}
	return values
}

// given returns the variables of the command line.
func (r *fileReader) given(top *config.Section) map[string]value {
	given := map[string]value{}
	for name, raw := range r.opts.Vars {
		given[name] = value{raw: raw}
		top.Hide(secretTexts(name, raw)...)
	}
	return given
}

// vars reads a table of variables; s may be nil.
func (r *fileReader) vars(s *config.Section) {
	if s == nil {
		return
	}
	filled := s.Fill(config.Filling{Value: noReference})
	for _, name := range s.Keys() {
		if !config.IsReferenceName(name) {
			s.Problem(name, "is not a name that a reference can have (use letters, digits, _ and -, and begin with a letter)")
			continue
		}
		v := value{}
		if missing := filled.Missing(name); missing != nil {
			v.err = missing.Err
		} else {
			v.raw = filled.JSON(name)
			s.Hide(secretTexts(name, v.raw)...)
		}
		r.file.vars[name] = v
	}
}

// Inputs returns the files on which the checks of a file depend: the file itself, scripts,
// cassettes, locks, rows, snapshots and its configuration, whether they exist or not, as far as the
// file can be read.
func Inputs(path string, opts LoadOptions) []string {
	names := []string{path}
	data, err := config.ReadFile(opts.Load, path)
	if err != nil {
		return names
	}
	f, _ := parse(path, data, opts)
	names = append(names, f.rowFiles...)
	if !opts.Offline {
		names = append(names, f.extends)
	}
	if f.verifyPins && f.Config != nil {
		names = append(names, f.Config.PinsPath())
	}
	for _, c := range f.Checks {
		names = append(names, c.Code.File, c.lockFile())
		if c.Mock != nil {
			names = append(names, c.Mock.File)
		}
		if c.snapshot != nil {
			names = append(names, c.snapshot.place.String())
		}
		names = append(names, c.schemas...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// value is the value of a reference.
type value struct {
	raw []byte // JSON
	err error  // why the value is unknown
}

// errNoReference is the error for a reference in a place without references.
var errNoReference = errors.New(`cannot refer to other values (write \{{ for a literal {{)`)

func noReference(string) ([]byte, error) { return nil, errNoReference }

// captureError is why the value of a reference is not known: no check has captured the value.
type captureError struct {
	name string
	from *Check // captures the value
	why  string // such as "that check has failed"
}

func (e *captureError) Error() string {
	return fmt.Sprintf("{{%s}} is not known: %s should have captured it, but %s", e.name, e.from.label(), e.why)
}

// notYet is the reason of a captureError while the file is read.
const notYet = "it has not run yet"

// ParseVar reads NAME=VALUE. A VALUE in JSON has the JSON value; any other VALUE is text.
func ParseVar(text string) (name string, raw []byte, err error) {
	name, written, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return "", nil, errors.New("want NAME=VALUE")
	case !config.IsReferenceName(name):
		return "", nil, fmt.Errorf("%q is not the name of a variable (use letters, digits, _ and -, and begin with a letter)", name)
	}
	return name, config.ValueOf(written), nil
}

// secretTexts returns the secret texts in a value, judging by the value's name and the names of its
// members. Numbers are as written. The value is read as tokens, since the value may be a server's
// answer of any size.
func secretTexts(name string, raw []byte) []string {
	r := secretReader{text: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	r.value(config.LooksSecret(name))
	return r.found
}

type secretReader struct {
	text  *jsontext.Decoder
	found []string
}

// value reads a value, and reports success.
func (r *secretReader) value(secret bool) bool {
	tok, err := r.text.ReadToken()
	if err != nil {
		return false
	}
	switch tok.Kind() {
	case '"', '0':
		if secret {
			r.found = append(r.found, tok.String())
		}
	case '{', '[':
		end := tok.Kind() + 2 // in ASCII
		for r.text.PeekKind() != end {
			inner := secret
			if end == '}' {
				name, err := r.text.ReadToken()
				if err != nil {
					return false
				}
				inner = secret || config.LooksSecret(name.String())
			}
			if !r.value(inner) {
				return false
			}
		}
		_, err = r.text.ReadToken()
	}
	return err == nil
}

// filling returns how references in the table of a check are replaced. captured returns the values
// that checks have captured.
func (r *fileReader) filling(from *source, c *Check, captured func(name string) ([]byte, error)) config.Filling {
	c.uses = map[string]int{}
	return config.Filling{
		Skip:     []string{"code", "capture", "rows"},
		Verbatim: []string{"name", "server", "call"},
		JSONText: isJSONText,
		Value: func(name string) ([]byte, error) {
			c.uses[name]++
			if v, ok := from.row.values[name]; ok {
				return v.raw, v.err
			}
			if v, ok := r.file.vars[name]; ok {
				return v.raw, v.err
			}
			if at, ok := r.file.captures[name]; ok && at.order < from.order {
				if !slices.Contains(c.needs, name) {
					c.needs = append(c.needs, name)
				}
				return captured(name)
			}
			return nil, r.unknown(from, name)
		},
	}
}

// isJSONText reports whether a key in the table of a check is for JSON text.
func isJSONText(key string) bool {
	key, ok := strings.CutSuffix(key, "_json")
	if !ok {
		return false
	}
	of, member, nested := strings.Cut(key, ".")
	of, _, _ = strings.Cut(of, "[")
	return !nested || !strings.Contains(member, ".") && (of == "expect" || of == "mock")
}

// unknown returns the error for a reference without a value.
func (r *fileReader) unknown(from *source, name string) error {
	if at, ok := r.file.captures[name]; ok {
		if at.order == from.order {
			return fmt.Errorf("{{%s}} is captured by this very check (only later checks can refer to it)", name)
		}
		return fmt.Errorf("{{%s}} is captured only later, on line %d (move that check up)", name, at.line)
	}
	var known []string
	for _, of := range []map[string]value{from.row.values, r.file.vars} {
		for n := range of {
			known = append(known, n)
		}
	}
	for n, at := range r.file.captures {
		if at.order < from.order {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	if from.row.columns[name] {
		return fmt.Errorf("row %d has no %q", from.row.number, name)
	}
	return fmt.Errorf("there is no variable %q%s; set it in [vars] or with --var %s=VALUE, or capture it in a check before", name, hint(name, slices.Compact(known)), name)
}

// secretOf is secretTexts for a value that is a secret as a whole.
func secretOf(raw []byte) []string {
	if text, ok := wire.Text(raw); ok {
		return []string{text}
	}
	return append(secretTexts("secret", raw), string(raw))
}
