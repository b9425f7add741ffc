package clientconfig

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
