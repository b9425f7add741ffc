// Command packages makes packages of mcp-metatool from existing programs.
//
// packages DIST OUT VERSION
//
// DIST has a folder with the program for each platform, with the system and the architecture in its
// name, such as mcp-metatool_linux_amd64_v1. VERSION follows Semantic Versioning. OUT gets a folder
// npm/NAME for each npm package, for npm pack; a bundle for desktop hosts (.mcpb) for each
// platform; and server.json for the MCP registry, with the digests of the bundles. The same
// programs give the same bytes. Run packages in the root of the repository, as
// scripts/releasebuild/wrappers does.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Descriptions of the program in all packages.
const (
	packageName = "mcp-metatool"
	serverName  = "io.github.mcp-metatool/mcp-metatool" // in the MCP registry
	title       = "mcp-metatool"
	// description has at most 100 characters, as the registry demands.
	description = "Many MCP servers through one, with composite tools that run in a WebAssembly sandbox"
	homepage    = "https://github.com/mcp-metatool/mcp-metatool"
	license     = "Apache-2.0"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: packages DIST OUT VERSION")
	}
	dist, out := args[0], args[1]
	version, err := checkVersion(args[2])
	if err != nil {
		return err
	}
	binaries, err := findBinaries(dist)
	if err != nil {
		return err
	}
	if err := writePackages(binaries, filepath.Join(out, "npm"), version); err != nil {
		return err
	}
	if err := writeBundles(binaries, out, version); err != nil {
		return err
	}
	return writeServer(out, version)
}

var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// checkVersion returns the version without the v of the tag. Build metadata is not allowed: npm
// drops it.
func checkVersion(version string) (string, error) {
	version = strings.TrimPrefix(version, "v")
	if !semantic.MatchString(version) {
		return "", fmt.Errorf("%q is not a version such as 1.2.3 or 1.2.3-rc.1", version)
	}
	return version, nil
}

// writeJSON writes a document for people and programs.
func writeJSON(path string, v any) error {
	data, err := marshal(v)
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o644)
}

func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return []byte(b.String()), err
}

// writeFile writes a file with exactly mode, and makes the file's folder.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask is
}
