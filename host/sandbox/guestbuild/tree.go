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

// interpreterDir is where the changed interpreter is in the tree. Its name is part
// of what is built, so that it is the same for every tree.
const interpreterDir = "starlark"

// writeTree writes the sources of the guest into a new folder, and beside them the
// changed interpreter where they need it: go build must find that at a path that
// does not depend on the machine.
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

// moduleDir is the folder of a module that go.mod requires, which is downloaded
// where need be.
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
