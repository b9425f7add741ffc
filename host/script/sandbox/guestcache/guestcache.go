// Package guestcache says where tests keep the compiled guest. Only tests import guestcache.
package guestcache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// unusedAfter is the time without use after which the cache of another set of modules is
// removed.
const unusedAfter = 7 * 24 * time.Hour

// Dir returns the directory in which the tests of all packages keep the compiled guest, because
// compiling takes longer than most tests. The directory is in the user's cache directory, or in the
// directory for temporary files. A test that changes HOME or the like must call Dir before. Without
// a usable directory, Dir returns "", and each package compiles the guest.
//
// The name contains a digest of go.sum, because test binaries do not tell wazero its own version,
// which otherwise keeps native code of different versions apart.
var Dir = sync.OnceValue(func() string {
	user, err := os.UserCacheDir()
	if err != nil || owner.CheckStrictly(user) != nil {
		user = filepath.Join(os.TempDir(), fmt.Sprint("mcp-metatool-", os.Getuid()))
	}
	sum, err := moduleSum()
	if err != nil {
		return ""
	}
	digest := sha256.Sum256(sum)
	parent := filepath.Join(user, "mcp-metatool-test")
	dir := filepath.Join(parent, hex.EncodeToString(digest[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	others, _ := filepath.Glob(filepath.Join(parent, "*"))
	for _, other := range others {
		if info, err := os.Lstat(other); err == nil && info.IsDir() && now.Sub(info.ModTime()) > unusedAfter {
			_ = os.RemoveAll(other)
		}
	}
	return dir
})

// moduleSum returns the content of go.sum. Tests run in the directory of their package.
func moduleSum() ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return sum, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, err
		}
		dir = parent
	}
}
