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
	"slices"
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

// platform is a system and an architecture, as Go and Node call them.
type platform struct{ goos, goarch, os, cpu string }

// platforms are the platforms with packages. The launcher of the npm package and .ci/run name the
// same.
var platforms = []platform{
	{"linux", "amd64", "linux", "x64"},
	{"linux", "arm64", "linux", "arm64"},
	{"darwin", "amd64", "darwin", "x64"},
	{"darwin", "arm64", "darwin", "arm64"},
	{"windows", "amd64", "win32", "x64"},
}

// node returns Node's name for the platform, such as win32-x64.
func (p platform) node() string { return p.os + "-" + p.cpu }

// program returns the name of the binary.
func (p platform) program() string {
	if p.goos == "windows" {
		return packageName + ".exe"
	}
	return packageName
}

// findBinaries returns the path of each platform's binary below a folder. A missing or second
// binary is an error.
func findBinaries(dist string) (map[platform]string, error) {
	folders, err := os.ReadDir(dist)
	if err != nil {
		return nil, err
	}
	binaries := map[platform]string{}
	for _, p := range platforms {
		for _, folder := range folders {
			path := filepath.Join(dist, folder.Name(), p.program())
			if !p.isIn(folder.Name()) {
				continue
			}
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if binaries[p] != "" {
				return nil, fmt.Errorf("%s/%s: both %s and %s are its binary", p.goos, p.goarch, binaries[p], path)
			}
			binaries[p] = path
		}
		if binaries[p] == "" {
			return nil, fmt.Errorf("%s/%s: there is no folder in %s with %s, such as %s_%s_%s",
				p.goos, p.goarch, dist, p.program(), packageName, p.goos, p.goarch)
		}
	}
	return binaries, nil
}

// isIn reports whether the name of a folder belongs to the platform.
func (p platform) isIn(folder string) bool {
	words := strings.FieldsFunc(folder, func(r rune) bool { return r == '_' || r == '-' })
	return slices.Contains(words, p.goos) && slices.Contains(words, p.goarch)
}
