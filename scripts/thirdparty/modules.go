package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// targets are the shipped programs: the binary for each system, and the guest, which every binary
// embeds.
var targets = []struct{ goos, goarch, pkg, part string }{
	{"linux", "amd64", "./cmd/mcp-metatool", "binary"},
	{"darwin", "arm64", "./cmd/mcp-metatool", "binary"},
	{"windows", "amd64", "./cmd/mcp-metatool", "binary"},
	{"wasip1", "wasm", "./guest", "guest"},
}

// module is a module that is linked into a target.
type module struct {
	path, version, dir string
	// dirs are the directories of the linked packages.
	dirs []string
	// parts has "binary", "guest" or both.
	parts []string
}

// standard is the heading of the Go standard library and runtime.
const standard = "Go standard library"

// listedPackage has the used members of go list's output.
type listedPackage struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version, Dir string }
	}
}

// moduleRoot returns the directory of the go.mod for a folder.
func moduleRoot(ctx context.Context, dir string) (string, error) {
	gomod, err := goCommand(ctx, dir, nil, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	path := strings.TrimSpace(string(gomod))
	if filepath.Base(path) != "go.mod" {
		return "", errors.New("no go.mod here (run this inside the repository)")
	}
	return filepath.Dir(path), nil
}

// linked returns the linked modules except the main module, sorted by path.
func linked(ctx context.Context, root string) ([]*module, error) {
	goroot, err := goCommand(ctx, root, nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all := map[string]*module{}
	for _, t := range targets {
		env := []string{"GOOS=" + t.goos, "GOARCH=" + t.goarch, "CGO_ENABLED=0"}
		out, err := goCommand(ctx, root, env, "list", "-deps", "-json=Dir,Standard,Module", t.pkg)
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listedPackage
			if err := decoder.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("output of go list %s: %w", t.pkg, err)
			}
			if err := add(all, p, t.part, strings.TrimSpace(string(goroot))); err != nil {
				return nil, err
			}
		}
	}
	modules := slices.Collect(maps.Values(all))
	slices.SortFunc(modules, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return modules, nil
}

func add(all map[string]*module, p listedPackage, part, goroot string) error {
	m := module{path: standard, dir: goroot}
	switch {
	case p.Standard:
		// Licences below GOROOT belong to tools; the library's licence is at the top.
		p.Dir = goroot
	case p.Module == nil:
		return fmt.Errorf("package in %s belongs to no module", p.Dir)
	case p.Module.Main:
		return nil
	case p.Module.Replace != nil:
		r := p.Module.Replace
		m = module{path: p.Module.Path + " => " + r.Path, version: r.Version, dir: r.Dir}
	default:
		m = module{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir}
	}
	known := all[m.path]
	if known == nil {
		known = &m
		all[m.path] = known
	}
	if !slices.Contains(known.parts, part) {
		known.parts = append(known.parts, part)
	}
	if !slices.Contains(known.dirs, p.Dir) {
		known.dirs = append(known.dirs, p.Dir)
	}
	return nil
}

// goCommand runs the go command in dir and returns the output.
func goCommand(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// licence is a file of a module that has to be distributed with the binary.
type licence struct {
	name string // path in the module
	text string
	kind string // "" for notices and the like
}

var (
	licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)
	notLicence  = regexp.MustCompile(`(?i)\.(go|py|sh|json|ya?ml|tmpl)$`)
	extra       = regexp.MustCompile(`(?i)^(notice|patents|copyright)`)
)

// kinds are licences that allow linking into a binary under Apache-2.0, each recognised by a
// sentence of the text. The first match counts.
var kinds = []struct{ name, sentence string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

// kind returns the name of the licence in a text; "" for an unknown licence.
func kind(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	for _, k := range kinds {
		if strings.Contains(words, k.sentence) {
			return k.name
		}
	}
	return ""
}

// licences reads the licence files of a module: in the directories of the linked packages and in
// the directories above, up to the module's own. A missing licence or an unknown kind is an error.
func licences(m *module) ([]licence, error) {
	var names []string
	for _, dir := range m.dirs {
		for {
			found, err := licenceFiles(m.dir, dir)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
			if dir == m.dir || len(dir) <= len(m.dir) {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	slices.Sort(names)
	var list []licence
	known := false
	for _, name := range slices.Compact(names) {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			return nil, err
		}
		l := licence{name: filepath.ToSlash(name), text: string(text), kind: kind(string(text))}
		if l.kind == "" && !extra.MatchString(filepath.Base(name)) {
			return nil, fmt.Errorf("%s: %s is of an unknown kind (read it; if it allows linking, add it to kinds)", m.path, name)
		}
		known = known || l.kind != ""
		list = append(list, l)
	}
	if !known {
		return nil, fmt.Errorf("%s has no licence file in %s (without a licence it may not be linked)", m.path, m.dir)
	}
	return list, nil
}

// licenceFiles returns the licence files in dir, as paths relative to root.
func licenceFiles(root, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceName.MatchString(e.Name()) || notLicence.MatchString(e.Name()) {
			continue
		}
		name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
