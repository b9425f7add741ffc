// Package edit changes a configuration file of mcp-metatool, in TOML or JSON, and keeps its
// comments, order and layout.
//
//	edit.go     File: opening, adding and removing servers, setting keys
//	server.go   Server: the keys of a server in the order in which they are written
//	json.go     the JSON form
//	tokens.go   the tokens of clients over HTTP
//	splice.go   setting and removing values in a JSON text
//
// A File is only a text in memory. Package tools/change shows and writes it.
package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// ErrNoServer is matched by errors.Is if the file has no server with that name.
var ErrNoServer = errors.New("there is no such server in it")

// Error says what cannot be changed in which file.
type Error struct {
	Path string
	Err  error // for example [ErrNoServer], [tomldoc.ErrForm] or a [*config.Problem]
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// File is a configuration file that is being edited. It is not safe for concurrent use.
type File struct {
	path   string
	before []byte // nil: there is no such file
	text   string
	json   bool
}

// Open reads the file that [config.Load] would read with these options. If there is none,
// the File is empty and has the path where Load looks first. The file that a flag or the
// environment names need not exist.
func Open(opts config.LoadOptions) (*File, error) {
	files := config.Files(opts)
	if len(files) == 0 {
		return nil, errors.New("there is no home directory to keep a configuration in (name a file with --config)")
	}
	for _, path := range files {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := config.ReadFile(opts, path)
		if err != nil {
			return nil, err
		}
		return New(path, data), nil
	}
	return New(files[0], nil), nil
}

// New returns a File with the content data; nil says that it does not exist.
func New(path string, data []byte) *File {
	f := &File{path: path, before: data, json: strings.EqualFold(filepath.Ext(path), ".json")}
	f.Reset()
	return f
}

// Reset takes all changes back.
func (f *File) Reset() {
	f.text = string(f.before)
	if f.json && strings.TrimSpace(f.text) == "" {
		f.text = "{}\n"
	}
}

// Path returns the file as it was named or found.
func (f *File) Path() string { return f.path }

// Exists reports whether the file exists.
func (f *File) Exists() bool { return f.before != nil }

// Text returns the text with the changes so far.
func (f *File) Text() []byte { return []byte(f.text) }

// Change returns the change from the content that was read to the text.
func (f *File) Change() change.File {
	c := change.File{Path: f.path, Before: f.before, After: f.Text(), Perm: 0o600}
	if f.before == nil && len(c.After) == 0 {
		c.Before = []byte{} // nothing is to be written
	}
	return c
}

// Parse returns the configuration that the text is; see [config.Parse]. A mistake in one
// server, see [config.LoadOptions.Tolerate], is an error only if the text before the changes
// does not have it.
func (f *File) Parse(opts config.LoadOptions) (*config.Config, error) {
	opts.Tolerate = true
	c, _, err := config.Parse(opts, f.path, f.Text())
	if err != nil {
		return nil, err
	}
	now := c.Mistakes()
	if len(now) == 0 {
		return c, nil
	}
	had := map[string]bool{}
	if opts.Unset != nil {
		opts.Unset = func(string, *config.Problem) {}
	}
	if before, _, err := config.Parse(opts, f.path, f.before); err == nil {
		for _, p := range before.Mistakes() {
			had[p.Key+": "+p.Text] = true
		}
	}
	var errs []error
	for _, p := range now {
		if !had[p.Key+": "+p.Text] { // lines may have moved
			errs = append(errs, p)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// Masker returns a masker for the secrets of the text before and after the changes.
func (f *File) Masker(opts config.LoadOptions) *config.Masker {
	opts.Unset = func(string, *config.Problem) {}
	m := &config.Masker{}
	for _, data := range [][]byte{f.before, f.Text()} {
		_, secrets, _ := config.Parse(opts, f.path, data) // problems are reported elsewhere
		m.Add(secrets...)
	}
	return m
}

// Names returns the names of the servers in the file. The order is that of the file for
// JSON, and alphabetical for TOML. The error is an [*Error].
func (f *File) Names() ([]string, error) {
	if f.json {
		d, err := f.parseJSON()
		if err != nil {
			return nil, err
		}
		return d.names(), nil
	}
	v, _, err := tomldoc.Get(f.text, []string{upstream})
	if err != nil {
		return nil, f.asError(err)
	}
	servers, _ := v.(map[string]any)
	names := make([]string, 0, len(servers))
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Has reports whether the file has a server with that name. A text that cannot be read has
// none.
func (f *File) Has(name string) bool {
	names, err := f.Names()
	return err == nil && slices.Contains(names, name)
}

const upstream = "upstream" // the table of all servers in TOML

// Put adds a server, or makes one that exists equal to s: keys that s does not have are
// removed, and those that are equal stay as they are written. The error is an [*Error].
func (f *File) Put(name string, s Server) error {
	if f.json {
		return f.putJSON(name, s)
	}
	return f.update(tomldoc.Set(f.text, []string{upstream, name}, s.table()))
}

// Set sets one key of a server, such as disabled, to a string, bool, int64, float64,
// []string or [tomldoc.InlineTable]. The error is an [*Error], perhaps with [ErrNoServer].
func (f *File) Set(name, key string, value any) error {
	if !f.Has(name) {
		return f.missing(name)
	}
	if f.json {
		return f.setJSON(name, key, value)
	}
	return f.update(tomldoc.Set(f.text, []string{upstream, name, key}, value))
}

// Unset removes one key of a server. It is no error if there is none. The error is an
// [*Error], perhaps with [ErrNoServer].
func (f *File) Unset(name, key string) error {
	if !f.Has(name) {
		return f.missing(name)
	}
	if f.json {
		return f.unsetJSON(name, key)
	}
	return f.update(tomldoc.Remove(f.text, []string{upstream, name, key}))
}

// Remove removes a server, with the comment directly above it. The error is an [*Error],
// perhaps with [ErrNoServer].
func (f *File) Remove(name string) error {
	if !f.Has(name) {
		return f.missing(name)
	}
	if f.json {
		return f.removeJSON(name)
	}
	return f.update(tomldoc.Remove(f.text, []string{upstream, name}))
}

// missing returns why a server cannot be found.
func (f *File) missing(name string) error {
	if _, err := f.Names(); err != nil {
		return err
	}
	return &Error{f.path, fmt.Errorf("upstream %q: %w", name, ErrNoServer)}
}

// update takes over the result of an edit.
func (f *File) update(text string, err error) error {
	if err != nil {
		return f.asError(err)
	}
	f.text = text
	return nil
}

// asError returns an error that quotes nothing of the file: if it has a syntax error, that
// of the configuration.
func (f *File) asError(err error) error {
	if !errors.Is(err, tomldoc.ErrForm) {
		if _, _, parse := config.Parse(config.LoadOptions{}, f.path, f.Text()); parse != nil {
			problem := new(config.Problem)
			if errors.As(parse, &problem) && problem.Line > 0 {
				return parse
			}
		}
	}
	if at := new(tomldoc.PathError); errors.As(err, &at) && errors.Is(err, tomldoc.ErrForm) {
		return &Error{f.path, at}
	}
	return &Error{f.path, errors.New("it cannot be read (mcp-metatool check says why)")}
}
