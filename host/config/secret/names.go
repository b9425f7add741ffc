package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Names are the names of the secrets that were added to the keyring, in a file, because
// keyrings cannot be asked for them everywhere. The file has no values.
type Names struct{ Path string }

const (
	maxNames = 1 << 20 // bytes
	lockTime = 5 * time.Second
)

// NamesIn returns the names in the directory of a store.
func NamesIn(dir string) Names { return Names{filepath.Join(dir, "secrets.json")} }

// List returns the names in alphabetical order.
func (n Names) List(ctx context.Context) ([]string, error) {
	data, err := regular.Read(ctx, n.Path, maxNames)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	if err == nil {
		err = json.Unmarshal(data, &names)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Path, err)
	}
	names = slices.DeleteFunc(names, func(s string) bool { return !config.SecretName.MatchString(s) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Add adds a name.
func (n Names) Add(ctx context.Context, name string) error {
	return n.change(ctx, func(names []string) []string { return append(names, name) })
}

// Remove removes a name.
func (n Names) Remove(ctx context.Context, name string) error {
	return n.change(ctx, func(names []string) []string {
		return slices.DeleteFunc(names, func(s string) bool { return s == name })
	})
}

// change replaces the file, one process after the other.
func (n Names) change(ctx context.Context, change func([]string) []string) error {
	dir := filepath.Dir(n.Path)
	if _, err := owner.Check(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock := regular.NewLock(n.Path + ".lock")
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("%s cannot be locked: %w", lock.Path(), err)
	}
	names, err := n.List(ctx)
	if err != nil {
		return err
	}
	names = change(names)
	slices.Sort(names)
	data, err := json.Marshal(slices.Compact(names))
	if err != nil {
		return err
	}
	return regular.Write(n.Path, append(data, '\n'), 0o600)
}
