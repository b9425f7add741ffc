package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/setup/serverjson"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// distOf returns a folder with a small file as the binary of each platform.
func distOf(t *testing.T) string {
	t.Helper()
	dist := t.TempDir()
	for _, p := range platforms {
		path := filepath.Join(dist, packageName+"_"+p.goos+"_"+p.goarch+"_v1", p.program())
		if err := writeFile(path, []byte("binary for "+p.node()), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dist
}

// makeAll makes all packages of version 1.2.3 in a new folder.
func makeAll(t *testing.T, dist string) string {
	t.Helper()
	t.Chdir(filepath.Join("..", "..", ".."))
	out := t.TempDir()
	if err := run([]string{dist, out, "v1.2.3"}); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// TestPlatforms checks that there are packages for what a release builds, and that the
// launcher knows the same.
func TestPlatforms(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	targets := regexp.MustCompile(`(?m)^ +- (linux|darwin|windows)_(amd64|arm64)_v[\d.]+$`).FindAllStringSubmatch(string(read(t, filepath.Join(root, ".goreleaser.yaml"))), -1)
	var names []string
	for _, p := range platforms {
		names = append(names, p.node())
		if !slices.ContainsFunc(targets, func(m []string) bool { return m[1] == p.goos && m[2] == p.goarch }) {
			t.Errorf(".goreleaser.yaml does not build for %s/%s", p.goos, p.goarch)
		}
	}
	if len(targets) != len(platforms) {
		t.Errorf(".goreleaser.yaml builds for %d platforms, and there are packages for %d", len(targets), len(platforms))
	}
	want := `const platforms = ["` + strings.Join(names, `", "`) + `"];`
	if launcher := string(read(t, filepath.Join("..", "npm", "launcher.js"))); !strings.Contains(launcher, want) {
		t.Errorf("launcher.js lacks %s", want)
	}
}

func TestFindBinaries(t *testing.T) {
	dist := distOf(t)
	if found, err := findBinaries(dist); err != nil || len(found) != len(platforms) {
		t.Errorf("%v, %v", found, err)
	}
	again := filepath.Join(dist, "other-linux-arm64", packageName)
	if err := writeFile(again, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := findBinaries(dist); err == nil || !strings.Contains(err.Error(), "linux/arm64: both ") {
		t.Errorf("two binaries: %v", err)
	}
	if _, err := findBinaries(t.TempDir()); err == nil || !strings.Contains(err.Error(), "linux/amd64: there is no folder") {
		t.Errorf("no binary: %v", err)
	}
}

func TestCheckVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "0.1.0-rc.1": "0.1.0-rc.1", "1.2": "", "latest": "", "1.2.3+build": "", "1.2.3-": "", "": "", "01.2.3": "",
	} {
		if got, err := checkVersion(version); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", version, got, err)
		}
	}
	if err := run([]string{distOf(t), t.TempDir(), "latest"}); err == nil {
		t.Error("no version is accepted")
	}
}

func TestNPM(t *testing.T) {
	out := filepath.Join(makeAll(t, distOf(t)), "npm")
	var launcher npmPackage
	decode(t, read(t, filepath.Join(out, packageName, "package.json")), &launcher)
	if launcher.Version != "1.2.3" || launcher.MCPName != serverName || len(launcher.Optional) != len(platforms) {
		t.Errorf("%+v", launcher)
	}
	if _, err := os.Stat(filepath.Join(out, packageName, launcher.Bin[packageName])); err != nil {
		t.Error(err)
	}
	for _, p := range platforms {
		var n npmPackage
		folder := filepath.Join(out, p.node())
		decode(t, read(t, filepath.Join(folder, "package.json")), &n)
		if launcher.Optional[n.Name] != n.Version || n.Version != "1.2.3" || n.OS[0] != p.os || n.CPU[0] != p.cpu || n.Bin != nil {
			t.Errorf("%+v", n)
		}
		if text := read(t, filepath.Join(folder, "bin", p.program())); string(text) != "binary for "+p.node() {
			t.Errorf("%s: %q", p.node(), text)
		}
		for _, name := range []string{"LICENSE", "THIRD_PARTY_NOTICES", "README.md"} {
			if len(read(t, filepath.Join(folder, name))) == 0 {
				t.Errorf("%s: %s is empty", p.node(), name)
			}
		}
	}
}

// variable finds what a host puts into a manifest.
var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

func TestBundles(t *testing.T) {
	dist := distOf(t)
	out := makeAll(t, dist)
	again := t.TempDir()
	if err := run([]string{dist, again, "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		data := read(t, filepath.Join(out, p.bundleName()))
		if !bytes.Equal(data, read(t, filepath.Join(again, p.bundleName()))) {
			t.Errorf("%s is different each time", p.bundleName())
		}
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		var m manifest
		decode(t, unzip(t, archive, "manifest.json"), &m)
		if m.Version != "1.2.3" || m.Compatibility["platforms"][0] != p.os || m.Server.Config.Command != "${__dirname}/"+m.Server.EntryPoint {
			t.Errorf("%+v", m)
		}
		if text := unzip(t, archive, m.Server.EntryPoint); string(text) != "binary for "+p.node() {
			t.Errorf("%s: %q", p.node(), text)
		}
		for _, f := range archive.File {
			if strings.HasPrefix(f.Name, "bin/") != (f.Mode()&0o111 != 0) {
				t.Errorf("%s has the mode %v", f.Name, f.Mode())
			}
		}
		for _, value := range m.Server.Config.Env {
			option, ok := m.UserConfig[strings.TrimPrefix(variable.FindStringSubmatch(value)[1], "user_config.")]
			if !ok || option.Required || option.Default != "" {
				t.Errorf("%s: the person is not asked for it, or it is not optional: %+v", value, option)
			}
		}
		if m.Server.Config.Env[config.EnvConfig] == "" {
			t.Errorf("the configuration file is not given in %s", config.EnvConfig)
		}
	}
}

func unzip(t *testing.T, archive *zip.Reader, name string) []byte {
	t.Helper()
	f, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRegistry checks that our own reader understands server.json, and that it describes the
// packages.
func TestRegistry(t *testing.T) {
	out := makeAll(t, distOf(t))
	text := read(t, filepath.Join(out, "server.json"))
	var d serverDocument
	decode(t, text, &d)
	for i, p := range platforms {
		sum, err := digest(filepath.Join(out, p.bundleName()))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Packages[1+i]; got.FileSHA256 != sum || !strings.HasSuffix(got.Identifier, "/releases/download/v1.2.3/"+p.bundleName()) {
			t.Errorf("%+v", got)
		}
	}
	if d.Packages[0].Identifier != packageName || d.Name != launcherPackage("1.2.3").MCPName || len(d.Description) > 100 {
		t.Errorf("%+v", d)
	}
	document, err := serverjson.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	options := document.Options()
	for i, o := range options { // bundles are for desktop hosts
		if (o.Problem == "") != (i == 0) {
			t.Errorf("option %d: %+v", i, o)
		}
	}
	server, err := options[0].Server(nil)
	if want := []string{"-y", packageName + "@1.2.3"}; err != nil || server.Command != "npx" || !slices.Equal(server.Args, want) {
		t.Errorf("%+v, %v; want npx %q", server, err, want)
	}
}
