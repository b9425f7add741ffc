package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// ownBinary returns the path of this program for a host's file.
func ownBinary() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return stableBinary(own, os.Args[0])
}

// stableBinary returns the path of a program that was started as started: that path, or the
// one in PATH, if it leads to the same file. Package managers change such links with each
// version, and delete the file itself.
func stableBinary(own, started string) (string, error) {
	info, err := os.Stat(own)
	if err != nil {
		return "", err
	}
	paths := []string{own}
	for _, name := range []string{started, filepath.Base(started), filepath.Base(own)} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			continue
		}
		if same, err := os.Stat(path); err == nil && os.SameFile(info, same) {
			paths = append(paths, path)
		}
	}
	paths = append(paths[1:], own) // its own path is the last resort
	for _, path := range paths {
		if clientconfig.Transient(path) == "" {
			return path, nil
		}
	}
	return paths[0], nil
}

// variableNames returns the names of variables of the entry that have values of the person.
func (c *connection) variableNames() []string {
	var names []string
	for _, s := range c.entry.Env {
		if !c.isPublic(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// isPublic reports whether a variable of the entry is no value of the person: a path of ours,
// or a reference that the host resolves.
func (c *connection) isPublic(s clientconfig.Setting) bool {
	return s.Name == config.EnvDir || s.Name == "PATH" || slices.Contains(c.references, s) || strings.HasPrefix(s.Value, "${")
}
