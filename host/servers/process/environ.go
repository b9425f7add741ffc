package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// inherited lists the variables of our environment that every server gets: search paths,
// directories, the user and the language, but nothing that commonly holds a secret. Proxy variables
// are left out because they may contain a password. The list follows the list of the SDKs
// (TypeScript SDK, client/stdio.ts, DEFAULT_INHERITED_ENV_VARS), and adds the locale, temporary and
// XDG directories, and certificate files.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR",
	"LANG", "LANGUAGE", // and LC_*
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// inheritedWindows replaces inherited on Windows, where many programs do not even start without
// some of these. On Windows, case does not matter.
var inheritedWindows = []string{
	"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "OS",
	"TEMP", "TMP", "HOME", "HOMEDRIVE", "HOMEPATH", "USERPROFILE", "USERNAME",
	"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "ALLUSERSPROFILE", "PUBLIC",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES",
	"NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "TERM", "TZ", "LANG", "LANGUAGE",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// environ returns the environment of a server: the inherited variables of ours,
// followed by named.
func environ(ours, named []string, windows bool) []string {
	list := inherited
	if windows {
		list = inheritedWindows
	}
	env := []string{}
	for _, kv := range ours {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(value, "()") { // an exported shell function
			continue
		}
		if windows {
			name = strings.ToUpper(name)
		}
		if slices.Contains(list, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	return append(env, named...)
}

// lookup finds name in env, where the last entry counts.
func lookup(env []string, name string, windows bool) string {
	for _, kv := range slices.Backward(env) {
		k, v, _ := strings.Cut(kv, "=")
		if k == name || windows && strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// findCommand returns the path of the program for command: relative to dir if command has a
// separator, else looked up in the PATH of env. Relative entries of PATH are ignored, as in package
// os/exec: the choice of the program must not depend on our working directory.
func findCommand(command, dir string, env []string) (string, error) {
	if command == "" {
		return "", fmt.Errorf("no command (set command)")
	}
	if filepath.Base(command) != command {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("command %q: %w", command, err)
		}
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("command %q cannot be run: %w (check the path and its permissions)", command, withoutPath(err))
		}
		return found, nil
	}
	for _, d := range filepath.SplitList(lookup(env, "PATH", runtime.GOOS == "windows")) {
		if !filepath.IsAbs(d) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(d, command)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("command %q not found in PATH (install it or give the full path)", command)
}

// withoutPath removes the path from an error of package os or os/exec, because the caller's message
// contains the path already.
func withoutPath(err error) error {
	switch e := err.(type) {
	case *exec.Error:
		return withoutPath(e.Err)
	case *os.PathError:
		return e.Err
	}
	return err
}
