package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files in a new folder without symbolic links in its path. A name that ends with a
// slash is a folder, one with " -> " a link.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o700)
		default:
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFiles checks what is granted, without what every server gets.
func TestFiles(t *testing.T) {
	dir := tree(t, "program", "store/tools/x", "config.toml", "data/a", "data/b", "work/", "link -> data", "work/planted -> ../store", "work/own/",
		"alias -> work", "far -> work/planted")
	at := func(name string) string { return filepath.Join(dir, name) }
	place := Place{Path: at("program"), Own: []string{at("store"), at("config.toml"), at("later/journal")}}
	for name, c := range map[string]struct {
		settings Settings
		want     string // grants in dir
		err      string
	}{
		"nothing":            {Settings{}, "program:rx", ""},
		"a folder":           {Settings{Read: []string{at("data")}}, "data:r program:rx", ""},
		"by a link":          {Settings{Write: []string{at("link")}}, "data:rw program:rx", ""},
		"with ours in it":    {Settings{Read: []string{dir}}, "data:r program:rx work:r", ""},
		"ours, named":        {Settings{Read: []string{dir, at("config.toml")}}, "config.toml:r data:r program:rx work:r", ""},
		"in ours, named":     {Settings{Write: []string{at("store/tools")}}, "program:rx store/tools:rw", ""},
		"in ours, and all":   {Settings{Read: []string{dir, at("store/tools")}}, "data:r program:rx store/tools:r work:r", ""},
		"ours, written":      {Settings{Write: []string{dir}}, "", "which has " + at("store") + " of mcp-metatool in it"},
		"ours, by a link":    {Settings{Write: []string{at("work/..")}}, "", "of mcp-metatool in it"},
		"planted":            {Settings{Write: []string{at("work")}, Read: []string{at("work/planted")}}, "", "by a symbolic link in a folder that the server may write"},
		"planted, by a link": {Settings{Write: []string{at("work")}, Read: []string{at("alias/planted")}}, "", "by a symbolic link in a folder that the server may write"},
		"planted on the way": {Settings{Write: []string{at("work")}, Read: []string{at("far/x")}}, "", "by a symbolic link in a folder that the server may write"},
		"planted to write":   {Settings{Write: []string{at("work"), at("work/planted")}}, "", "by a symbolic link in a folder that the server may write"},
		"not planted":        {Settings{Write: []string{at("work")}, Read: []string{at("link")}}, "data:r program:rx work:rw", ""},
		"below the writable": {Settings{Write: []string{at("work")}, Exec: []string{at("work/own")}}, "program:rx work:rw work/own:rx", ""},
		"our program":        {Settings{Write: []string{filepath.Dir(os.Args[0])}}, "", "of mcp-metatool in it"},
		"missing":            {Settings{Read: []string{at("nowhere")}}, "", "there is no " + at("nowhere")},
	} {
		grants, err := c.settings.files(place)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
			continue
		}
		var got []string
		for _, g := range grants {
			rel, err := filepath.Rel(dir, g.path)
			if err != nil || strings.HasPrefix(rel, "..") {
				continue
			}
			text := rel + ":"
			for i, letter := range "rwx" {
				if g.right&(1<<i) != 0 {
					text += string(letter)
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestPresets checks that presets grant installations, and nothing that the server can
// choose.
func TestPresets(t *testing.T) {
	home := tree(t, "bin/node", ".local/bin/uvx", "nvm/v20/bin/node", "nvm/v20/lib/x", "work/bin/node -> ../../secret/bin/node", "secret/bin/node",
		".local/share/pipx -> ../../work/planted", "work/planted -> ../secret", "shims/node", "pyenv/shims/python3")
	at := func(name string) string { return filepath.Join(home, name) }
	for name, c := range map[string]struct {
		settings Settings
		path     string // folders in PATH
		want     string // grants in home
	}{
		"an installation":      {Settings{Presets: []Preset{Node}}, at("nvm/v20/bin"), "nvm/v20 nvm/v20/bin/node"},
		"in the home folder":   {Settings{Presets: []Preset{Node}}, at("bin"), "bin/node"},
		"shims":                {Settings{Presets: []Preset{Python}}, at("pyenv/shims"), "pyenv pyenv/shims/python3 secret"},
		"shims at home":        {Settings{Presets: []Preset{Node}}, at("shims"), "shims/node"},
		"of uv":                {Settings{Presets: []Preset{Python}}, at(".local/bin"), ".local/bin/uvx secret"},
		"a link":               {Settings{Presets: []Preset{Node}}, at("work/bin"), "secret secret/bin/node"},
		"a link of the server": {Settings{Presets: []Preset{Node, Python}, Write: []string{at("work")}}, at("work/bin") + ":" + at("nvm/v20/bin"), "nvm/v20 nvm/v20/bin/node work"},
	} {
		grants, err := c.settings.files(Place{Path: "/bin/sh", Env: []string{"HOME=" + home, "PATH=" + c.path}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, g := range grants {
			if within(g.path, home) {
				got = append(got, strings.TrimPrefix(g.path, home+"/"))
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestInterpreter checks what the first line of a script can choose.
func TestInterpreter(t *testing.T) {
	dir := tree(t, "bin/node", "bin/data", "script")
	if err := os.Chmod(filepath.Join(dir, "bin/node"), 0o700); err != nil {
		t.Fatal(err)
	}
	script, node := filepath.Join(dir, "script"), filepath.Join(dir, "bin/node")
	for line, want := range map[string][]string{
		"#!/bin/sh -e":                             {"/bin/sh"},
		"#!/usr/bin/env node":                      {"/usr/bin/env", node},
		"#!/usr/bin/env -S A=b node --flag":        {"/usr/bin/env", node},
		"#!/usr/bin/env data":                      {"/usr/bin/env"}, // not executable
		"#!/usr/bin/env -S sh ../script":           {"/usr/bin/env"},
		"#!/usr/bin/env ../bin/node":               {"/usr/bin/env"},
		"#!":                                       nil,
		"console.log(1)":                           nil,
		"#!" + strings.Repeat("x", 300) + " a b\n": {strings.Repeat("x", 254)},
	} {
		if err := os.WriteFile(script, []byte(line+"\nrest"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := interpreter(script, []string{"PATH=" + filepath.Join(dir, "bin")}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestOursLater checks that a file of ours is not granted if it does not exist yet.
func TestOursLater(t *testing.T) {
	dir := tree(t, "program", "data/a", "link -> data")
	own := []string{filepath.Join(dir, "link/journal")}
	s := Settings{Write: []string{filepath.Join(dir, "data")}}
	if _, err := s.files(Place{Path: filepath.Join(dir, "program"), Own: own}); err == nil || !strings.Contains(err.Error(), "data/journal") {
		t.Errorf("written: %v", err)
	}
	s = Settings{Read: []string{filepath.Join(dir, "data")}}
	grants, err := s.files(Place{Path: filepath.Join(dir, "program"), Own: own})
	if err != nil || !slices.ContainsFunc(grants, func(g grant) bool { return g.path == filepath.Join(dir, "data/a") }) ||
		slices.ContainsFunc(grants, func(g grant) bool { return g.path == filepath.Join(dir, "data") }) {
		t.Errorf("read: %v, %v", grants, err)
	}
}

// TestLacks checks what is said about older kernels.
func TestLacks(t *testing.T) {
	ports := &Settings{Network: NetworkPorts, Processes: 1}
	for name, c := range map[string]struct {
		kernel kernel
		want   []string
	}{
		"none":   {kernel{reason: "the kernel has no Landlock"}, []string{"restricting files needs Landlock ABI 1 (Linux 5.13)", "TCP ports needs Landlock ABI 4", "signalling", "needs seccomp"}},
		"old":    {kernel{abi: 2, filters: true}, []string{"emptying files that it may not write needs Landlock ABI 3 (Linux 6.2)", "TCP ports", "signalling"}},
		"middle": {kernel{abi: 4, filters: true}, []string{"signalling other processes needs Landlock ABI 6 (Linux 6.12)"}},
		"new":    {kernel{abi: 6, filters: true}, nil},
		"root":   {kernel{abi: 6, filters: true, root: true}, []string{"processes of root needs a control group"}},
		"group":  {kernel{abi: 6, filters: true, root: true, groups: true}, nil},
	} {
		lacks := c.kernel.lacks(ports)
		if len(lacks) != len(c.want) {
			t.Errorf("%s: %q", name, lacks)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(lacks[i], want) {
				t.Errorf("%s: %q, want %q", name, lacks[i], want)
			}
		}
	}
	err := error(&UnsupportedError{[]string{"a", "b"}, kernel{abi: 1, release: "5.13", filters: true}.level()})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "a; b; this is Linux 5.13 with Landlock ABI 1") {
		t.Errorf("%v", err)
	}
}

// TestOlderKernel checks that nothing is asked of a kernel that it does not know.
func TestOlderKernel(t *testing.T) {
	for abi, files := range map[int]uint64{0: 0, 1: 1<<13 - 1, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1, 7: 1<<16 - 1} {
		if got := handledFiles(abi); got != files {
			t.Errorf("ABI %d: %#x, want %#x", abi, got, files)
		}
	}
	filter, err := (&Settings{}).filter()
	if arch == 0 {
		t.Skip("no filters for this processor")
	}
	if err != nil || len(filter)%8 != 0 || len(filter) > 4096*8 {
		t.Errorf("a filter of %d bytes, %v", len(filter), err)
	}
}

// TestSyscallNames checks that refused system calls exist on one of the processors that
// are supported.
func TestSyscallNames(t *testing.T) {
	old := strings.Fields("create_module uselib ustat sysfs _sysctl lookup_dcookie nfsservctl iopl ioperm modify_ldt chmod chown lchown setxattrat removexattrat file_setattr open_tree_attr")
	for _, name := range strings.Fields(forbiddenNames + sharedNames) {
		if _, ok := knownSyscalls()[name]; !ok && arch != 0 && !slices.Contains(old, name) {
			t.Errorf("%s is unknown", name)
		}
	}
}
