package guestbuild

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/patch"
)

// interpreterDir is the directory of the changed interpreter in the tree. The name becomes part of
// the guest, so every tree has the same name.
const interpreterDir = "starlark"

// writeTree writes the sources of the guest to a new directory, and the changed interpreter if the
// sources need the interpreter: its path must not depend on the machine.
func writeTree(ctx context.Context, root, tree string, in Inputs) error {
	names := []string{"go.mod"}
	if _, err := os.Stat(filepath.Join(root, "go.sum")); err == nil {
		names = append(names, "go.sum")
	}
	for _, f := range in.Files {
		names = append(names, f.Path)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		path := filepath.Join(tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(in.Modules, func(m Module) bool { return m.Path == patch.Module }) {
		return nil
	}
	from, err := moduleDir(ctx, root, patch.Module)
	if err != nil {
		return err
	}
	if err := patch.Copy(from, filepath.Join(tree, interpreterDir)); err != nil {
		return err
	}
	_, err = goCommand(ctx, tree, nil, "mod", "edit", "-replace="+patch.Module+"=./"+interpreterDir)
	return err
}

// moduleDir returns the directory of a module required in go.mod. The module is downloaded if
// necessary.
func moduleDir(ctx context.Context, root, path string) (string, error) {
	out, err := goCommand(ctx, root, nil, "mod", "download", "-json", path)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	return module.Dir, nil
}
