package process

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	ours := []string{"PATH=/bin", "AWS_SECRET=s", "SHELL=() { :;}", "=C:=C:\\", "odd", "LC_ALL=C", "XDG_DATA_HOME=/x", "SystemRoot=w", "Path=p", "GITHUB_TOKEN=s"}
	for _, tt := range []struct {
		windows bool
		want    []string
	}{
		{false, []string{"PATH=/bin", "LC_ALL=C", "XDG_DATA_HOME=/x", "A=b"}},
		{true, []string{"PATH=/bin", "LC_ALL=C", "SystemRoot=w", "Path=p", "A=b"}},
	} {
		if got := environ(ours, []string{"A=b"}, tt.windows); !slices.Equal(got, tt.want) {
			t.Errorf("windows %v: %v", tt.windows, got)
		}
	}
	if got := environ(nil, nil, false); got == nil {
		t.Error("nil would mean our whole environment to os/exec")
	}
	if got := lookup([]string{"Path=a", "PATH=b", "path=c"}, "PATH", true) + lookup([]string{"PATH=b", "path=c"}, "PATH", false); got != "cb" {
		t.Error(got)
	}
}

func TestFindCommand(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	name := "our-server"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(bin, name)
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, path, want string }{
		{"our-server", bin, path},
		{"our-server", dir + string(filepath.ListSeparator) + bin, path},
		{"our-server", "bin", ""}, // relative entries do not count
		{"our-server", "", ""},
		{filepath.Join("bin", "our-server"), "", path}, // below dir
		{path, "", path},
		{"bin", dir, ""}, // a directory
	} {
		got, err := findCommand(tt.command, dir, []string{"PATH=/ours", "PATH=" + tt.path})
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s in %s: %q, %v", tt.command, tt.path, got, err)
		}
	}
}
