package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// claimsDir is the subfolder of the journal with an empty file for each run continued by another
// run.
const claimsDir = "continued"

// claimAge is the shortest lifetime of a claim. Clients cannot answer as late.
const claimAge = 24 * time.Hour

// claimsCleared is how often old claims are removed.
const claimsCleared = 10 * time.Minute

// ErrClaimed means that a run was claimed before.
var ErrClaimed = errors.New("another run continues this run already")

// Claim takes the right to continue a run. Among all processes that share the directory, the first
// caller gets the right, later callers get ErrClaimed. A nil Log grants everything.
func (l *Log) Claim(id string) error {
	if l == nil {
		return nil
	}
	path, err := l.claimPath(id)
	if err != nil {
		return err
	}
	l.clearClaims()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return &WriteError{l.dir, err}
	}
	file, err := regular.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrClaimed
	case err != nil:
		return &WriteError{l.dir, err}
	}
	return file.Close()
}

// Release gives a claim back. The run can be continued again.
func (l *Log) Release(id string) error {
	if l == nil {
		return nil
	}
	path, err := l.claimPath(id)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func (l *Log) claimPath(id string) (string, error) {
	if !isID([]byte(id)) {
		return "", fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	return filepath.Join(l.dir, claimsDir, id), nil
}

// clearClaims removes old claims. Claims that cannot be removed now are removed later.
func (l *Log) clearClaims() {
	l.mu.Lock()
	now := l.opts.Now()
	due := now.Sub(l.cleared) >= claimsCleared
	if due {
		l.cleared = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	dir := filepath.Join(l.dir, claimsDir)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > claimAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
