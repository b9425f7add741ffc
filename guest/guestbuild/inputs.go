package guestbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Inputs are all inputs of the build: they determine the guest.
type Inputs struct {
	// Go is the toolchain named in go.mod, for example "go1.26.8". Language is the version in the
	// go line, which also selects runtime defaults.
	Go, Language string
	Flags        []string // after settings of the environment
	Modules      []Module // sorted by path
	Files        []File   // sorted by path
}

// Module is a module with packages linked by the guest.
type Module struct{ Path, Version, Sum string }

// File is a source file of this module. The path is relative to the root, with forward slashes.
type File struct {
	Path   string
	SHA256 [sha256.Size]byte
}

// Hash returns a hash over all inputs.
func (in Inputs) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(in.lines())) }

// lines returns the canonical text of the inputs, which is in the sum file.
func (in Inputs) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "go %s (language %s)\n", in.Go, in.Language)
	fmt.Fprintf(&b, "flags %s\n", strings.Join(in.Flags, " "))
	for _, m := range in.Modules {
		fmt.Fprintf(&b, "module %s %s %s\n", m.Path, m.Version, m.Sum)
	}
	for _, f := range in.Files {
		fmt.Fprintf(&b, "file %s %s\n", f.Path, hex.EncodeToString(f.SHA256[:]))
	}
	return b.String()
}

// listed has the members used from the output of `go list -deps -json`.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Sum, GoVersion string
		Main                          bool
		Replace                       *struct{ Path, Version, Sum string }
	}
	GoFiles, SFiles, EmbedFiles []string
}

// ReadInputs returns the inputs of a build in root. ReadInputs compiles nothing, and needs no
// network if the modules are in the cache.
func ReadInputs(ctx context.Context, root string) (Inputs, error) {
	in := Inputs{Flags: slices.Concat(settings, flags)}
	var err error
	if in.Go, err = toolchain(ctx, root); err != nil {
		return Inputs{}, err
	}
	packages := []string{guestPackage, rewritePackage}
	if isDir(root, patchPackage) {
		packages = append(packages, patchPackage, codepointsPackage, profilePackage)
	}
	modules, err := in.list(ctx, root, packages)
	if err != nil {
		return Inputs{}, err
	}
	for _, m := range modules {
		in.Modules = append(in.Modules, m)
	}
	sort.Slice(in.Modules, func(i, j int) bool { return in.Modules[i].Path < in.Modules[j].Path })
	sort.Slice(in.Files, func(i, j int) bool { return in.Files[i].Path < in.Files[j].Path })
	return in, nil
}

func isDir(root, pkg string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(pkg)))
	return err == nil && info.IsDir()
}

// list adds the files of this module used in the build of packages, and returns the other modules
// needed.
func (in *Inputs) list(ctx context.Context, root string, packages []string) (map[string]Module, error) {
	// Any toolchain finds the same files. The pinned toolchain might have to be downloaded.
	env := append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,SFiles,EmbedFiles"}
	out, err := goCommand(ctx, root, env, append(args, packages...)...)
	if err != nil {
		return nil, err
	}
	modules := map[string]Module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return modules, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		switch {
		case p.Standard || p.Module == nil:
		case p.Module.Main:
			in.Language = p.Module.GoVersion
			if err := in.addFiles(root, p); err != nil {
				return nil, err
			}
		case p.Module.Replace != nil:
			return nil, fmt.Errorf("go.mod: %s is replaced (the guest must be built from published modules)", p.Module.Path)
		default:
			modules[p.Module.Path] = Module{p.Module.Path, p.Module.Version, p.Module.Sum}
		}
	}
}

func (in *Inputs) addFiles(root string, p listed) error {
	for _, names := range [][]string{p.GoFiles, p.SFiles, p.EmbedFiles} {
		for _, name := range names {
			full := filepath.Join(p.Dir, name)
			content, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, full)
			if err != nil {
				return err
			}
			in.Files = append(in.Files, File{filepath.ToSlash(rel), sha256.Sum256(content)})
		}
	}
	return nil
}

// toolchain returns the toolchain pinned in go.mod.
func toolchain(ctx context.Context, root string) (string, error) {
	out, err := goCommand(ctx, root, nil, "mod", "edit", "-json")
	if err != nil {
		return "", err
	}
	var mod struct{ Toolchain string }
	if err := json.Unmarshal(out, &mod); err != nil {
		return "", fmt.Errorf("go mod edit: %w", err)
	}
	if mod.Toolchain == "" {
		return "", errors.New("go.mod: no toolchain line (the guest is built with a pinned toolchain)")
	}
	return mod.Toolchain, nil
}
