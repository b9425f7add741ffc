package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
)

// namesModules checks that a CycloneDX document names each module in a program, with the module's
// version.
func namesModules(document []byte, info *debug.BuildInfo) error {
	var sbom struct {
		Format     string `json:"bomFormat"`
		Version    string `json:"specVersion"`
		Components []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			PURL    string `json:"purl"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &sbom); err != nil {
		return err
	}
	if sbom.Format != "CycloneDX" || sbom.Version == "" {
		return fmt.Errorf("not a CycloneDX document, but %q %q", sbom.Format, sbom.Version)
	}
	named := map[string]string{}
	for _, c := range sbom.Components {
		if c.PURL != "" {
			named[c.Name] = c.Version
		}
	}
	if len(info.Deps) == 0 {
		return fmt.Errorf("the program has no modules")
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if got, ok := named[m.Path]; !ok || got != m.Version {
			return fmt.Errorf("does not name %s %s (it has %q)", m.Path, m.Version, got)
		}
	}
	return nil
}
