package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func wants(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestChecksums(t *testing.T) {
	dist := t.TempDir()
	sums := ""
	for _, name := range []string{"a.tar.gz", "a.zip", "a.deb", "a.rpm", "a.tar.gz.cdx.json"} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
	}
	check := func(sums, want string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dist, "checksums.txt"), []byte(sums), 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, checksums(dist), want)
	}
	check(sums, "")
	check(strings.Replace(sums, "a.zip", "a.deb", 1), "a.deb does not have the digest")
	check(sums[:strings.LastIndex(strings.TrimSpace(sums), "\n")+1], "does not name a.tar.gz.cdx.json")
	check(sums+"x  ../y\n", "is not a digest and a file")
	check(sums+"x  gone\n", "gone")
}

func TestNamesModules(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "m.example/a", Version: "v1.0.0"}}}
	sbom := func(version string) []byte {
		return fmt.Appendf(nil, `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{"name":"m.example/a","version":%q,"purl":"pkg:golang/m.example/a"}]}`, version)
	}
	wants(t, namesModules(sbom("v1.0.0"), info), "")
	wants(t, namesModules(sbom("v1.0.1"), info), "does not name m.example/a v1.0.0")
	wants(t, namesModules([]byte(`{"spdxVersion":"2.3"}`), info), "not a CycloneDX document")
	wants(t, namesModules(sbom("v1.0.0"), &debug.BuildInfo{}), "no modules")
}

// TestProgram checks programs of other systems and builds by this test's own binary, which has
// the format of the system it runs on, and was not built like a release.
func TestProgram(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		name := "mcp-metatool"
		if s.goos == "windows" {
			name += ".exe"
		}
		_, err := s.program(map[string][]byte{name: program})
		if own := s.goos == runtime.GOOS && s.goarch == runtime.GOARCH; own && runtime.GOOS != "linux" {
			wants(t, err, "was built with")
		} else if err == nil {
			t.Errorf("%s/%s: a test binary of %s/%s is taken for a release", s.goos, s.goarch, runtime.GOOS, runtime.GOARCH)
		}
	}
}

func TestContents(t *testing.T) {
	var b bytes.Buffer
	plain := gzip.NewWriter(&b)
	archive := tar.NewWriter(plain)
	add := func(name, text string) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range companions {
		add(name, "text")
	}
	for i := range fewestPages {
		add(fmt.Sprintf("man/%d.1", i), "page")
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tar.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := unpack(path)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, systems[0].contents(files), "")
	files["LICENSE"] = nil
	wants(t, systems[0].contents(files), "LICENSE is missing or empty")
	for name := range files {
		if strings.HasPrefix(name, "man/") {
			delete(files, name)
		}
	}
	wants(t, systems[0].contents(files), "only 0 manual pages")
}
