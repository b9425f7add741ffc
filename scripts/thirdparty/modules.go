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
