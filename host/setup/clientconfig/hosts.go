package clientconfig

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	JSON Format = "json" // with comments and trailing commas
	TOML Format = "toml"
)

// Host is a program that starts MCP servers for an agent.
type Host struct {
	// Name is the name for users to type; Title is the program's own name.
	Name, Title string
	// Format is the format of the host's files, and Key the key under which they list servers.
	Format Format
	Key    string
	// Desktop means that the program is started from a desktop, not from a shell, with the environment
	// and PATH of the desktop.
	Desktop bool
	// vars are the variables that the host expands in its files.
	vars variables
	// typed means that entries name their transport.
	typed bool
	// clean is the list of variables that servers get from the program's own environment; nil: all.
	clean []string
	// files returns the places of the host's files.
	files func(s *System) []File
}

// Hosts returns the known hosts.
func Hosts() []*Host { return slices.Clone(hosts) }

// Lookup returns the host with a name, nil for an unknown name.
func Lookup(name string) *Host {
	for _, h := range hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Scopes returns the scopes in which the host lists servers on a system.
func (h *Host) Scopes(s *System) []Scope {
	var scopes []Scope
	for _, f := range h.Files(s) {
		scopes = append(scopes, f.Scope)
	}
	return scopes
}

// Files returns the files in which the host lists servers, the widest scope first. A file can have
// several scopes, at several places, and none need exist. In the home folder, the user's file may
// be the project's file, too: the file counts as the user's.
func (h *Host) Files(s *System) []File {
	var files []File
	for _, f := range h.files(s) {
		f.Host = h
		if f.Under == nil {
			f.Under = []string{h.Key}
		}
		if !slices.ContainsFunc(files, func(wider File) bool { return wider.Path == f.Path && slices.Equal(wider.Under, f.Under) }) {
			files = append(files, f)
		}
	}
	return files
}

// Sources, read in November 2026: code.claude.com/docs/en/mcp, modelcontextprotocol.io
// (connect to local servers), cursor.com/docs/mcp, code.visualstudio.com/docs/copilot/
// reference/mcp-configuration, codex-rs/config/src/mcp_types.rs, docs.windsurf.com
// (cascade/mcp), zed.dev/docs/ai/mcp and crates/paths of Zed.
var hosts = []*Host{
	{
		Name: "claude-code", Title: "Claude Code", Format: JSON, Key: "mcpServers", vars: shellVariables, typed: true,
		files: func(s *System) []File {
			main := s.join(s.dir("CLAUDE_CONFIG_DIR", s.Home), ".claude.json")
			return []File{
				{Path: main, Scope: User},
				{Path: s.join(s.Project, ".mcp.json"), Scope: Project, Shared: true},
				{Path: main, Scope: Local, Under: []string{"projects", s.Project, "mcpServers"}},
			}
		},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Format: JSON, Key: "mcpServers", Desktop: true,
		files: func(s *System) []File {
			return []File{{Path: s.join(s.applications(), "Claude", "claude_desktop_config.json"), Scope: User}}
		},
	},
	{
		Name: "cursor", Title: "Cursor", Format: JSON, Key: "mcpServers", Desktop: true, vars: editorVariables,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.Home, ".cursor", "mcp.json"), Scope: User},
				{Path: s.join(s.Project, ".cursor", "mcp.json"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "vscode", Title: "VS Code", Format: JSON, Key: "servers", Desktop: true, vars: editorVariables, typed: true,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.applications(), "Code", "User", "mcp.json"), Scope: User},
				{Path: s.join(s.Project, ".vscode", "mcp.json"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "codex", Title: "Codex", Format: TOML, Key: "mcp_servers",
		clean: []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"},
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.dir("CODEX_HOME", s.join(s.Home, ".codex")), "config.toml"), Scope: User},
				{Path: s.join(s.Project, ".codex", "config.toml"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "windsurf", Title: "Windsurf", Format: JSON, Key: "mcpServers", Desktop: true, vars: editorVariables,
		files: func(s *System) []File {
			return []File{{Path: s.join(s.Home, ".codeium", "windsurf", "mcp_config.json"), Scope: User}}
		},
	},
	{
		Name: "zed", Title: "Zed", Format: JSON, Key: "context_servers", Desktop: true,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.zed(), "settings.json"), Scope: User},
				{Path: s.join(s.Project, ".zed", "settings.json"), Scope: Project, Shared: true},
			}
		},
	},
}

// Metatool is the form of the product's own configuration, for comparing servers with the configured
// servers. Metatool is not among [Hosts].
var Metatool = &Host{Name: "mcp-metatool", Title: "mcp-metatool", Key: "upstream", vars: metatoolVariables, typed: true}

// anyFile is the form of a file of an unknown host.
var anyFile = &Host{Name: "file", Title: "a file", vars: allVariables}

// Scope says for which folders a host uses the servers of a file.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // everywhere
	Project Scope = "project" // for a folder; the file is in the folder
	Local   Scope = "local"   // for a folder; the file is in the home directory (Claude Code)
)

// File is a place where a host lists servers.
type File struct {
	Host  *Host
	Path  string // absolute
	Scope Scope
	// Under is the path of keys to the servers within the file.
	Under []string
	// Shared means that other people usually have the file too, through version control.
	Shared bool
}

// System has the inputs of places. [NewSystem] fills the fields.
type System struct {
	OS      string // as runtime.GOOS
	Home    string // the home directory
	Project string // the folder of the project, absolute
	// Getenv reads an environment variable.
	Getenv func(string) string
}

// NewSystem returns the System of this process, with the working directory as the project
// if project is "".
func NewSystem(project string) (*System, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("the home directory is not known: %w", err)
	}
	// Claude Code lists projects by their real path.
	if project, err = filepath.Abs(project); err == nil {
		project, err = filepath.EvalSymlinks(project)
	}
	if err != nil {
		return nil, fmt.Errorf("the working directory is not known: %w", err)
	}
	return &System{OS: runtime.GOOS, Home: home, Project: project, Getenv: os.Getenv}, nil
}

func (s *System) join(parts ...string) string { return filepath.Join(parts...) }

// dir returns the folder in a variable, or a default.
func (s *System) dir(variable, otherwise string) string {
	if dir := s.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}

// applications returns where desktop programs keep their settings.
func (s *System) applications() string {
	switch s.OS {
	case "darwin":
		return s.join(s.Home, "Library", "Application Support")
	case "windows":
		return s.dir("APPDATA", s.join(s.Home, "AppData", "Roaming"))
	}
	return s.dir("XDG_CONFIG_HOME", s.join(s.Home, ".config"))
}

// zed returns the folder of Zed's settings, which on macOS is not the usual folder.
func (s *System) zed() string {
	switch s.OS {
	case "windows":
		return s.join(s.applications(), "Zed")
	case "darwin":
		return s.join(s.Home, ".config", "zed")
	}
	return s.join(s.dir("FLATPAK_XDG_CONFIG_HOME", s.applications()), "zed")
}

// ErrElsewhere is matched by errors.Is if a link leads a file of a host out of the places where the
// product may write.
var ErrElsewhere = errors.New("leads elsewhere")

// CheckWrite returns an error if the file must not be written, because a link leads out of both the
// home directory and the folder of the project. A repository could contain such a link. The file
// and its folder need not exist.
func (f *File) CheckWrite(s *System) error {
	real, err := resolve(f.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	folder := s.Home
	switch {
	case f.Scope == Project: // the file must stay in the project, even if the project is below the home directory
		folder = s.Project
	case !within(f.Path, s.Home): // the environment names the folder
		folder = filepath.Dir(f.Path)
	}
	root, err := resolve(folder)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	if within(real, root) {
		return nil
	}
	return fmt.Errorf("%s is %s through a symbolic link, which %w, out of %s, so it is not written (edit that file directly)",
		f.Path, real, ErrElsewhere, folder)
}

// resolve follows the links of a path of which the end need not exist.
func resolve(path string) (string, error) {
	rest := ""
	for range 64 { // levels of missing folders
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("%s is a symbolic link to nothing", path)
		}
		up := filepath.Dir(path)
		if up == path {
			break
		}
		path, rest = up, filepath.Join(filepath.Base(path), rest)
	}
	return "", fmt.Errorf("%s cannot be resolved", path)
}

func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// Short returns a path with ~ for the home directory, for messages.
func (s *System) Short(path string) string {
	if rel, err := filepath.Rel(s.Home, path); err == nil && filepath.IsLocal(rel) && rel != "." && s.OS != "windows" {
		return "~" + string(filepath.Separator) + rel
	}
	return strings.TrimSuffix(path, string(filepath.Separator))
}

// Launch is how a host starts a server.
type Launch struct {
	Env []string // KEY=VALUE, all of them
	Dir string
}

// desktopPaths are the PATHs of programs that are started from a desktop: by launchd, and in
// systemd's user sessions.
var desktopPaths = map[string]string{
	"darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
	"linux":  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}

// DesktopPath returns the PATH of programs that are started from a desktop; "" for the PATH of a
// shell, as on Windows.
func DesktopPath(system string) string {
	switch path, ok := desktopPaths[system]; {
	case system == "windows":
		return ""
	case !ok:
		return desktopPaths["linux"]
	default:
		return path
	}
}

// Interpreter returns the program that env looks up for a script (#!/usr/bin/env node), "" for
// other and unreadable files.
func Interpreter(file string) string {
	f, err := regular.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 || filepath.Base(words[0]) != "env" {
		return ""
	}
	if words = words[1:]; len(words) > 0 && words[0] == "-S" {
		words = words[1:]
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return ""
	}
	return words[0]
}

// desktopVariables are the variables of a desktop's programs that matter to servers.
var desktopVariables = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", // the keyring may ask for its password
}

// Launch returns how the host starts servers of a scope, without the additions of an entry. environ
// is the environment of this process. Programs that are started from a shell have the same
// environment; programs that are started from a desktop have a short PATH and none of the variables
// that shells set, except on Windows.
func (h *Host) Launch(s *System, scope Scope, environ []string) Launch {
	keep := h.clean
	path := ""
	if h.Desktop && s.OS != "windows" {
		keep, path = desktopVariables, DesktopPath(s.OS)
	}
	l := Launch{Dir: s.Project}
	if h.Desktop && scope == User {
		l.Dir = s.Home
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if keep != nil && s.OS != "windows" && !slices.Contains(keep, name) {
			continue
		}
		l.Env = append(l.Env, variable)
	}
	if path != "" {
		l.Env = append(l.Env, "PATH="+path)
	}
	return l
}

// With returns the launch with the additions of an entry. Variables to pass on come from environ,
// the environment of this process, and so do variables in the entry's text; a variable for which
// the host would ask its user is empty.
func (l Launch) With(e *Entry, environ []string) Launch {
	env := slices.Clone(l.Env)
	for _, name := range e.Pass {
		for _, variable := range environ {
			if strings.HasPrefix(variable, name+"=") {
				env = append(env, variable)
			}
		}
	}
	here := Launch{Env: environ}
	for _, s := range e.Env {
		value := s.Value
		if inner, ok := strings.CutPrefix(value, "${env:"); ok && strings.HasSuffix(value, "}") {
			value, _ = here.Getenv(strings.TrimSuffix(inner, "}"))
		} else if strings.HasPrefix(value, "${input:") {
			value = ""
		}
		env = append(env, s.Name+"="+value)
	}
	l.Env = env
	return l
}

// Getenv returns the value of a variable.
func (l Launch) Getenv(name string) (string, bool) {
	for _, variable := range slices.Backward(l.Env) {
		had, value, _ := strings.Cut(variable, "=")
		if had == name || runtime.GOOS == "windows" && strings.EqualFold(had, name) {
			return value, true
		}
	}
	return "", false
}

// Find looks a command up in a PATH.
func Find(command, path string) (string, bool) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if file, err := exec.LookPath(filepath.Join(dir, command)); err == nil { // on Windows with its suffix
			return file, true
		}
	}
	return "", false
}

// Transient returns the program that will delete the file of a path, for example a package manager
// with the next version; "" if none is known.
func Transient(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i, part := range parts {
		switch {
		case part == "_npx", strings.HasPrefix(part, "bunx-"), part == "dlx" && slices.Contains(parts[:i], "pnpm"):
			return "npx, pnpm dlx or bunx, with the cache"
		case part == "Cellar", part == "Caskroom":
			return "Homebrew, with the next version"
		case part == "store" && i > 0 && parts[i-1] == "nix":
			return "Nix, with the next version"
		case strings.HasPrefix(part, "go-build"):
			return "go run, when it ends"
		}
	}
	return ""
}
