package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// snapshotFile ends the names of the files with snapshots, after the name of the upstream.
const snapshotFile = ".json"

// maxRemembered is how many files of upstreams are looked at.
const maxRemembered = 10000

// RememberedFiles returns the names of the files with remembered lists in the directory of
// Options.Dir, without the files about failures.
func RememberedFiles(dir string) ([]string, error) {
	root, err := regular.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := regular.Names(root, ".", maxRemembered)
	var names []string
	for _, name := range all {
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() && remembers(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// remembers reports whether a name is the name of a file with remembered lists.
func remembers(name string) bool {
	return strings.HasSuffix(name, snapshotFile) && !strings.HasSuffix(name, failureFile) && !strings.HasPrefix(name, ".")
}

// ForgetFiles removes files from the result of [RememberedFiles]. A running process keeps the lists
// in memory, and writes the file again when a list changes. Without the file, clients wait for the
// upstream at the next start.
func ForgetFiles(_ context.Context, dir string, names []string) error {
	if _, err := owner.Check(dir); err != nil {
		return fmt.Errorf("%w (remove the files yourself)", err)
	}
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var failed []error
	for _, name := range names {
		if !remembers(name) {
			return fmt.Errorf("%s: no file with remembered lists has this name", name)
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
