package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

// manifest is a manifest.json of MCPB 0.3.
type manifest struct {
	ManifestVersion string                `json:"manifest_version"`
	Name            string                `json:"name"`
	DisplayName     string                `json:"display_name"`
	Version         string                `json:"version"`
	Description     string                `json:"description"`
	LongDescription string                `json:"long_description"`
	Author          map[string]string     `json:"author"`
	Repository      map[string]string     `json:"repository"`
	Homepage        string                `json:"homepage"`
	Documentation   string                `json:"documentation"`
	Support         string                `json:"support"`
	Server          bundledServer         `json:"server"`
	ToolsGenerated  bool                  `json:"tools_generated"`
	Keywords        []string              `json:"keywords"`
	License         string                `json:"license"`
	Compatibility   map[string][]string   `json:"compatibility"`
	UserConfig      map[string]userOption `json:"user_config"`
}

type bundledServer struct {
	Type       string        `json:"type"`
	EntryPoint string        `json:"entry_point"`
	Config     bundledConfig `json:"mcp_config"`
}

type bundledConfig struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// userOption is a setting that the host asks the person for.
type userOption struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Sensitive   bool   `json:"sensitive,omitempty"`
	Default     string `json:"default"`
}

// secretVariable is the environment variable with the secret that the host keeps.
const secretVariable = "MCP_METATOOL_SECRET"

// userOptions are the settings that a desktop host asks for.
//
// The configuration is optional: the default is ~/.mcp-metatool, where the command line keeps the
// configuration. An option without a value is not replaced in the environment
// ("${user_config.config}" stays), so each has an empty default; an empty MCP_METATOOL_CONFIG is
// like none.
//
// Desktop hosts have no environment of a shell, so a configuration that needs ${GITHUB_TOKEN} does
// not find the variable. The host keeps one secret in a safe place; for more secrets, use the
// keyring.
var userOptions = map[string]userOption{
	"config": {
		Type: "file", Title: "Configuration file",
		Description: "A TOML or JSON file with your MCP servers. Without one, config.toml or config.json in .mcp-metatool in your home folder is used.",
	},
	"secret": {
		Type: "string", Title: "Secret for your servers", Sensitive: true,
		Description: "A token that one of your servers needs. The configuration refers to it as ${" + secretVariable + "}. For more than one, use mcp-metatool secret set.",
	},
}

// newManifest returns the manifest of the bundle for a platform. Each platform has a bundle:
// platform_overrides tell systems apart, not architectures, and all binaries together would be five
// times as large.
func newManifest(p platform, version string) manifest {
	program := "bin/" + p.program()
	return manifest{
		ManifestVersion: "0.3", Name: packageName, DisplayName: title, Version: version, Description: description,
		LongDescription: "mcp-metatool starts the MCP servers of your configuration and offers all of their tools as its own. " +
			"Agents can save composite tools: small scripts that call those tools in one go, in a WebAssembly sandbox.",
		Author:        map[string]string{"name": "The mcp-metatool authors", "url": homepage},
		Repository:    map[string]string{"type": "git", "url": homepage + ".git"},
		Homepage:      homepage,
		Documentation: homepage + "#readme",
		Support:       homepage + "/issues",
		Server: bundledServer{Type: "binary", EntryPoint: program, Config: bundledConfig{
			Command: "${__dirname}/" + program, Args: []string{"serve"},
			Env: map[string]string{"MCP_METATOOL_CONFIG": "${user_config.config}", secretVariable: "${user_config.secret}"},
		}},
		ToolsGenerated: true, // the tools of the configured servers
		Keywords:       []string{"mcp", "proxy", "gateway", "composite tools"},
		License:        license,
		Compatibility:  map[string][]string{"platforms": {p.os}},
		UserConfig:     userOptions,
	}
}

// bundleName returns the name of the bundle's file.
func (p platform) bundleName() string { return packageName + "-" + p.node() + ".mcpb" }

// writeBundles writes a bundle for each platform.
func writeBundles(binaries map[platform]string, out, version string) error {
	for _, p := range platforms {
		m, err := marshal(newManifest(p, version))
		if err != nil {
			return err
		}
		files := []bundledFile{{"manifest.json", m, 0o644}}
		for _, f := range []struct {
			from, to string
			mode     os.FileMode
		}{{"LICENSE", "LICENSE", 0o644}, {"THIRD_PARTY_NOTICES", "THIRD_PARTY_NOTICES", 0o644}, {binaries[p], "bin/" + p.program(), 0o755}} {
			data, err := os.ReadFile(f.from)
			if err != nil {
				return err
			}
			files = append(files, bundledFile{f.to, data, f.mode})
		}
		data, err := bundle(files)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, p.bundleName()), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

type bundledFile struct {
	name string
	data []byte
	mode os.FileMode
}

// bundleTime is the time of all files in a bundle, the first possible time in zip. mcpb pack writes
// the present time, so no two of its bundles are equal.
var bundleTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// bundle returns a zip archive, always the same for the same files.
func bundle(files []bundledFile) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: bundleTime}
		header.SetMode(f.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return b.Bytes(), err
}

// digest returns the SHA-256 of a file in hexadecimal.
func digest(path string) (string, error) {
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}
