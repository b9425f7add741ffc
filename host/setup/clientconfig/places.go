package clientconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

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
	// Shared means: other people usually have the file too, through version control.
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
