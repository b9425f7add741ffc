package guestbuild

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// tinyModule writes a module with a guest that needs only the Go runtime. It pins
// this toolchain.
func tinyModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	version := strings.Fields(runtime.Version())[0]
	if !strings.HasPrefix(version, "go1.") {
		t.Skipf("%s is not a released toolchain", version)
	}
	for name, text := range map[string]string{
		"go.mod":                    "module example.com/tiny\n\ngo 1.26\n\ntoolchain " + version + "\n",
		"guest/main.go":             "package main\n\nimport \"example.com/tiny/inner\"\n\n//go:wasmexport run\nfunc run() int32 { return inner.N }\n\nfunc main() {}\n",
		"guest/native.go":           "//go:build !wasip1\n\npackage main\n",
		"inner/inner.go":            "package inner\n\nimport _ \"embed\"\n\n//go:embed data.txt\nvar Text string\n\nvar N int32 = 7\n",
		"inner/inner_test.go":       "package inner\n",
		"inner/data.txt":            "data\n",
		sandboxDir + "/sandbox.go":  "package sandbox\n",
		"guest/rewrite/rewrite.go":  "package rewrite\n",
		"unrelated/not_in_guest.go": "package unrelated\n",
	} {
		write(t, root, name, text)
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestInputs(t *testing.T) {
	root := tinyModule(t)
	in, err := ReadInputs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range in.Files {
		files = append(files, f.Path)
	}
	if got, want := strings.Join(files, " "), "guest/main.go guest/rewrite/rewrite.go inner/data.txt inner/inner.go"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	if in.Language != "1.26" || !strings.HasPrefix(in.Go, "go1.") || len(in.Modules) != 0 {
		t.Errorf("%+v", in)
	}

	write(t, root, "inner/inner_test.go", "package inner // changed\n")
	if again, err := ReadInputs(t.Context(), root); err != nil || again.Hash() != in.Hash() {
		t.Errorf("a test file counts (%v)", err)
	}
	write(t, root, "inner/data.txt", "other\n")
	if again, err := ReadInputs(t.Context(), root); err != nil || again.Hash() == in.Hash() {
		t.Errorf("an embedded file does not count (%v)", err)
	}
	write(t, root, "go.mod", "module example.com/tiny\n\ngo 1.26\n")
	if _, err := ReadInputs(t.Context(), root); err == nil || !strings.Contains(err.Error(), "no toolchain line") {
		t.Errorf("without a pinned toolchain: %v", err)
	}
}

var long = flag.Bool("long", false, "build guests, too")

// TestBuild checks that builds in other directories and with other Go settings give
// the same guest, and that Verify detects every kind of difference.
func TestBuild(t *testing.T) {
	if !*long {
		t.Skip("it takes long: add -long")
	}
	ctx := t.Context()
	root, elsewhere := tinyModule(t), tinyModule(t)
	sum, err := Update(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(ctx, root); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-tags=other -ldflags=-X=example.com/tiny/inner.Text=x")
	t.Setenv("GOWASM", "satconv,signext")
	if again, err := Update(ctx, elsewhere); err != nil || again.Wasm != sum.Wasm || again.String() != sum.String() {
		t.Fatalf("built elsewhere: %v\n%s\nwant\n%s", err, again, sum)
	}

	committed := filepath.Join(root, filepath.FromSlash(sandboxDir))
	packed, err := os.ReadFile(filepath.Join(committed, GuestFile))
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(sum.String(), wasm, sum.Inputs); err != nil {
		t.Error(err)
	}
	changed := bytes.Clone(wasm)
	changed[len(changed)/2] ^= 1
	if err := Compare(sum.String(), changed, sum.Inputs); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "wasm sha256:") {
		t.Errorf("changed wasm: %v", err)
	}
	differs := func(what, has string) {
		t.Helper()
		if _, err := Verify(context.WithoutCancel(ctx), root); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), has) {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, committed, GuestFile, string(Pack(changed)))
	differs("changed wasm", "first difference at byte")
	write(t, committed, GuestFile, string(Pack(wasm[:100])))
	differs("wasm cut short", "100 bytes committed")
	write(t, committed, GuestFile, string(packed[:len(packed)-1]))
	differs("file cut short", "unexpected EOF")
	write(t, committed, GuestFile, string(packed))
	write(t, committed, SumFile, sum.String()+"more\n")
	differs("changed sum", "is not the sum of what was built")
	write(t, committed, SumFile, sum.String())
	write(t, root, "inner/inner.go", "package inner\n\nvar N int32 = 8\n")
	differs("changed source", "first difference at byte")

	in, err := ReadInputs(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(sum.String(), wasm, in); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "file inner/inner.go") || strings.Contains(err.Error(), "guest/main.go") {
		t.Errorf("changed source: %v", err)
	}
	write(t, root, "guest/main.go", "package main\n\nfunc main() { broken }\n")
	if _, err := Update(ctx, root); err == nil || !strings.Contains(err.Error(), "main.go:3") {
		t.Errorf("broken source: %v", err)
	}
}

func TestRoot(t *testing.T) {
	root := tinyModule(t)
	if got, err := Root(filepath.Join(root, "host", "sandbox")); err != nil || got != root {
		t.Errorf("%s, %v, want %s", got, err, root)
	}
	if _, err := Root(string(filepath.Separator)); err == nil {
		t.Error("found a module at the root of the file system")
	}
}
