package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestCommittedNoticesAreComplete checks that THIRD_PARTY_NOTICES is up to date. It
// fails if a module is added or its version changes.
func TestCommittedNoticesAreComplete(t *testing.T) {
	root, err := moduleRoot(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := notices(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := compare(filepath.Join(root, fileName), want); err != nil {
		t.Error(err)
	}
	// These are certainly linked; if one is missing, the listing is wrong.
	for _, path := range []string{standard, "github.com/tetratelabs/wazero", "go.starlark.net"} {
		if !slices.ContainsFunc(headings(want), func(h string) bool { return strings.HasPrefix(h, path) }) {
			t.Errorf("%s is not listed", path)
		}
	}
}

func TestCompareNamesModules(t *testing.T) {
	text := func(modules ...string) []byte {
		s := head
		for _, m := range modules {
			s += "\n" + heavy + "\n" + m + "\n"
		}
		return []byte(s)
	}
	path := filepath.Join(t.TempDir(), fileName)
	write(t, path, string(text("a v1", "old v1")))
	if err := compare(path, text("a v1", "old v1")); err != nil {
		t.Error("the same text differs:", err)
	}
	err := compare(path, text("a v1", "new v2"))
	if err == nil || !strings.Contains(err.Error(), `missing ["new v2"], no longer linked ["old v1"]`) {
		t.Error("got", err)
	}
	if err := compare(path+"-not-there", text()); err == nil {
		t.Error("a file that is not there is complete")
	}
}

const mit = "Permission is hereby granted, free of charge,\n to any person obtaining a copy"

func TestLicences(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // names and kinds, or the error
	}{
		{"at the top", map[string]string{"LICENSE": mit, "README": ""}, "LICENSE MIT"},
		{"british, with notice", map[string]string{"LICENCE.txt": mit, "NOTICE": "by us"}, "LICENCE.txt MIT,NOTICE "},
		{"below too", map[string]string{"LICENSE": mit, "pkg/COPYING": mit}, "LICENSE MIT,pkg/COPYING MIT"},
		{"a folder next to it is not linked", map[string]string{"LICENSE": mit, "other/LICENSE": "GPL"}, "LICENSE MIT"},
		{"code is no licence", map[string]string{"LICENSE": mit, "license_test.go": "package x"}, "LICENSE MIT"},
		{"none", map[string]string{"README": mit}, "no licence file"},
		{"a notice is no licence", map[string]string{"NOTICE": "by us"}, "no licence file"},
		{"of unknown kind", map[string]string{"LICENSE": "all rights reserved"}, "an unknown kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, filepath.Join(dir, name), text)
			}
			write(t, filepath.Join(dir, "pkg", "deep", "x.go"), "package deep")
			list, err := licences(&module{path: "m", dir: dir, dirs: []string{filepath.Join(dir, "pkg", "deep"), dir}})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %v, want %s", err, tt.want)
				}
				return
			}
			var got []string
			for _, l := range list {
				got = append(got, l.name+" "+l.kind)
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("got %q, want %s", got, tt.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
