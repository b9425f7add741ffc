package main

import (
	"os"
	"path/filepath"
	"strings"
)

// npmPackage is a package.json.
type npmPackage struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	Keywords    []string          `json:"keywords,omitempty"`
	License     string            `json:"license"`
	Homepage    string            `json:"homepage"`
	Repository  map[string]string `json:"repository"`
	MCPName     string            `json:"mcpName,omitempty"` // the registry compares mcpName with server.json
	Bin         map[string]string `json:"bin,omitempty"`
	Files       []string          `json:"files"`
	Engines     map[string]string `json:"engines,omitempty"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	// PreferUnplugged makes Yarn unpack the package, so that the binary can be started.
	PreferUnplugged bool              `json:"preferUnplugged,omitempty"`
	Optional        map[string]string `json:"optionalDependencies,omitempty"`
	PublishConfig   map[string]any    `json:"publishConfig"`
}

func newPackage(name, version, description string) npmPackage {
	return npmPackage{
		Name: name, Version: version, Description: description, License: license, Homepage: homepage,
		// npm compares the address with the address in the provenance.
		Repository:    map[string]string{"type": "git", "url": "git+" + homepage + ".git"},
		PublishConfig: map[string]any{"access": "public", "provenance": true},
	}
}

// npmName returns the name of the package for a platform.
func (p platform) npmName() string { return "@" + packageName + "/" + p.node() }

// launcherPackage returns the package that people install.
func launcherPackage(version string) npmPackage {
	p := newPackage(packageName, version, description)
	p.Keywords = []string{"mcp", "mcp-server", "modelcontextprotocol", "proxy", "gateway"}
	p.MCPName = serverName
	p.Bin = map[string]string{packageName: "bin/" + packageName + ".js"}
	p.Files = []string{"bin"}
	p.Engines = map[string]string{"node": ">=18"}
	p.Optional = map[string]string{}
	for _, platform := range platforms {
		p.Optional[platform.npmName()] = version // exactly: they belong together
	}
	return p
}

// platformPackage returns the package with the binary of a platform.
func platformPackage(p platform, version string) npmPackage {
	n := newPackage(p.npmName(), version, "The program of "+packageName+" for "+p.node()+"; install "+packageName+" instead")
	n.Files = []string{"bin", "THIRD_PARTY_NOTICES"}
	n.OS, n.CPU = []string{p.os}, []string{p.cpu}
	n.PreferUnplugged = true
	return n
}

// writePackages writes a folder for each npm package: out/mcp-metatool, and one for each platform.
func writePackages(binaries map[platform]string, out, version string) error {
	folder := filepath.Join(out, packageName)
	if err := writeJSON(filepath.Join(folder, "package.json"), launcherPackage(version)); err != nil {
		return err
	}
	err := copyFiles(folder, map[string]string{
		"scripts/releasebuild/npm/launcher.js": "bin/" + packageName + ".js",
		"scripts/releasebuild/npm/README.md":   "README.md",
		"LICENSE":                              "LICENSE",
	})
	if err != nil {
		return err
	}
	for _, p := range platforms {
		n := platformPackage(p, version)
		folder := filepath.Join(out, p.node())
		if err := writeJSON(filepath.Join(folder, "package.json"), n); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(folder, "README.md"), []byte("# "+n.Name+"\n\n"+n.Description+".\n"), 0o644); err != nil {
			return err
		}
		err := copyFiles(folder, map[string]string{
			binaries[p]: "bin/" + p.program(), "LICENSE": "LICENSE", "THIRD_PARTY_NOTICES": "THIRD_PARTY_NOTICES",
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFiles copies files into a folder. Files in the folder bin are executable.
func copyFiles(folder string, files map[string]string) error {
	for from, to := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(to, "bin/") {
			mode = 0o755
		}
		if err := writeFile(filepath.Join(folder, filepath.FromSlash(to)), data, mode); err != nil {
			return err
		}
	}
	return nil
}
