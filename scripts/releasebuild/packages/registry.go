package main

import (
	"fmt"
	"path/filepath"
)

// serverSchema is the schema of server.json.
const serverSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// serverDocument is a server.json.
type serverDocument struct {
	Schema      string            `json:"$schema"`
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Version     string            `json:"version"`
	WebsiteURL  string            `json:"websiteUrl"`
	Repository  map[string]string `json:"repository"`
	Packages    []serverPackage   `json:"packages"`
}

type serverPackage struct {
	RegistryType    string            `json:"registryType"`
	RegistryBaseURL string            `json:"registryBaseUrl,omitempty"`
	Identifier      string            `json:"identifier"`
	Version         string            `json:"version,omitempty"`
	FileSHA256      string            `json:"fileSha256,omitempty"`
	RuntimeHint     string            `json:"runtimeHint,omitempty"`
	Transport       map[string]string `json:"transport"`
	Variables       []serverVariable  `json:"environmentVariables,omitempty"`
}

type serverVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Format      string `json:"format,omitempty"`
	IsRequired  bool   `json:"isRequired"`
	IsSecret    bool   `json:"isSecret,omitempty"`
}

// newServer returns the document; digest gives the SHA-256 of a bundle.
func newServer(version string, digest func(platform) (string, error)) (serverDocument, error) {
	stdio := map[string]string{"type": "stdio"}
	d := serverDocument{
		Schema: serverSchema, Name: serverName, Title: title, Description: description, Version: version, WebsiteURL: homepage,
		Repository: map[string]string{"url": homepage, "source": "github"},
		Packages: []serverPackage{{
			RegistryType: "npm", RegistryBaseURL: "https://registry.npmjs.org", Identifier: packageName, Version: version,
			RuntimeHint: "npx", Transport: stdio,
			// The person's configuration names the secrets.
			Variables: []serverVariable{{
				Name: "MCP_METATOOL_CONFIG", Format: "filepath",
				Description: "The configuration file (default: config.toml or config.json in ~/.mcp-metatool)",
			}},
		}},
	}
	for _, p := range platforms {
		sum, err := digest(p)
		if err != nil {
			return d, err
		}
		// A bundle asks for the settings itself.
		d.Packages = append(d.Packages, serverPackage{
			RegistryType: "mcpb", Identifier: fmt.Sprintf("%s/releases/download/v%s/%s", homepage, version, p.bundleName()),
			FileSHA256: sum, Transport: stdio,
		})
	}
	return d, nil
}

// writeServer writes server.json next to the bundles.
func writeServer(out, version string) error {
	d, err := newServer(version, func(p platform) (string, error) { return digest(filepath.Join(out, p.bundleName())) })
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(out, "server.json"), d)
}
