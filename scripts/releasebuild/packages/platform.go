package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
