package clientconfig

import (
	"context"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Read reads the servers of a place. A missing file has none. The error names the file, and comes
// from reading (see [regular.Read]), or matches [ErrSyntax] or [ErrShape].
func Read(ctx context.Context, s *System, f File) (*Listing, error) {
	l := &Listing{File: f}
	data, err := regular.Read(ctx, f.Path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if path := new(fs.PathError); errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	l.Exists, l.Data = true, data
	if l.Servers, err = parse(s, f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return l, nil
}

// ReadFile reads a file of an unknown host, which is recognized by the name and the keys of the
// file.
func ReadFile(ctx context.Context, s *System, path string) (*Listing, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := regular.Read(ctx, abs, MaxFile)
	if perr := new(fs.PathError); errors.As(err, &perr) {
		err = perr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := recognize(abs, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := &Listing{File: f, Exists: true, Data: data}
	if l.Servers, err = parse(s, f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// fileNames are the names of files by which their host is recognized.
var fileNames = map[string]string{
	".claude.json": "claude-code", ".mcp.json": "claude-code",
	"claude_desktop_config.json": "claude-desktop", "mcp_config.json": "windsurf",
}

// recognize determines the host whose form a file has.
func recognize(path string, data []byte) (File, error) {
	f := File{Path: path, Scope: User}
	format := JSON
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		format = TOML
	}
	root, err := readTree(format, data)
	if err != nil {
		return f, err
	}
	for _, form := range []struct {
		key  string
		host *Host
	}{
		{"mcp_servers", Lookup("codex")}, {"upstream", Metatool}, {"upstreamServers", Metatool},
		{"context_servers", Lookup("zed")}, {"servers", Lookup("vscode")}, {"mcpServers", anyFile},
	} {
		if root.at(form.key) == nil {
			continue
		}
		host := form.host
		if known := fileNames[strings.ToLower(filepath.Base(path))]; known != "" && host == anyFile {
			host = Lookup(known)
		}
		own := *host
		own.Format = format
		f.Host, f.Under = &own, []string{form.key}
		return f, nil
	}
	return f, &shapeError{"lists no servers (a host's file has them under mcpServers, servers, context_servers or mcp_servers)"}
}

func readTree(format Format, data []byte) (*object, error) {
	if format == TOML {
		return readTOML(data)
	}
	return readJSON(data)
}

// parse reads the servers of a text.
func parse(s *System, f File, data []byte) ([]Server, error) {
	root, err := readTree(f.Host.Format, data)
	if err != nil {
		return nil, err
	}
	parent := root.at(f.Under[:len(f.Under)-1]...)
	if parent == nil || parent.fields[f.Under[len(f.Under)-1]] == nil {
		return nil, nil
	}
	value := parent.fields[f.Under[len(f.Under)-1]]
	if items, ok := value.([]any); ok && f.Host.Name == Metatool.Name {
		value = byName(items)
	}
	list, ok := value.(*object)
	if !ok || list == nil {
		return nil, &shapeError{strings.Join(f.Under, ".") + " is not an object with a server under each name"}
	}
	var servers []Server
	names := validNames(list.keys)
	for i, name := range list.keys {
		servers = append(servers, readServer(s, f, names[i], name, list.fields[name]))
	}
	return servers, nil
}

// byName makes an object of a list of servers that have their names in them, a form of the
// product's configuration in JSON. The result is nil if a server has no name, or the name of
// another server.
func byName(items []any) *object {
	list := newObject()
	for _, item := range items {
		server, ok := item.(*object)
		if !ok {
			return nil
		}
		name, ok := server.fields["name"].(string)
		if _, twice := list.fields[name]; !ok || twice {
			return nil
		}
		list.set(name, server)
	}
	return list
}

// readServer reads the entry of a server with the name original in the file.
func readServer(s *System, f File, name, original string, v any) Server {
	srv := Server{Name: name, Original: original}
	if name != original {
		srv.Notes = append(srv.Notes, fmt.Sprintf("it is called %s here: names are 1 to 32 letters, digits, _ and -", name))
	}
	o, ok := v.(*object)
	if !ok {
		srv.Problem = "is not an object"
		return srv
	}
	e := &entry{
		object: o, file: f, sys: s, server: &srv, known: map[string]bool{},
		text: translator{kind: f.Host.vars, sys: s, project: s.Project, sure: f.Scope != User, files: expandsFiles(s, f)},
	}
	e.read()
	srv.Notes, srv.References = append(srv.Notes, e.text.notes...), e.text.refs
	srv.Self = isSelf(&srv)
	return srv
}

var (
	allowedName = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)
	badName     = lazyregexp.New(`[^A-Za-z0-9_-]+`)
)

// validNames returns different names that the product's configuration allows for the servers of a
// file. Allowed names stay.
func validNames(originals []string) []string {
	used := map[string]bool{}
	for _, original := range originals {
		if validName(original) == original {
			used[original] = true
		}
	}
	names := make([]string, len(originals))
	for i, original := range originals {
		name := validName(original)
		if name != original {
			for base, n := name, 2; used[name] || abi.Reserved(abi.Ident(name)); n++ {
				number := fmt.Sprintf("-%d", n)
				name = base[:min(len(base), 32-len(number))] + number
			}
			used[name] = true
		}
		names[i] = name
	}
	return names
}

// validName returns a name that the product's configuration allows.
func validName(name string) string {
	if !allowedName.MatchString(name) {
		name = strings.Trim(badName.ReplaceAllString(name, "-"), "-")
		if name == "" {
			name = "server"
		}
		name = name[:min(len(name), 32)]
	}
	if abi.Reserved(abi.Ident(name)) {
		name = name[:min(len(name), 25)] + "-server"
	}
	return name
}
