package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// compileCache is the directory with the native code (skeleton.go) that one version of wazero has
// made of one guest, below the cache directory of the options. wazero keeps one file in it for each
// system and set of CPU features, with a CRC of the code. The CRC does not cover the offsets
// of functions, so the sandbox also stores a checksum of each whole file. It is there for
// damage: who can change the file can change the checksum. A cryptographic digest would
// take as long as everything else in a start with a cache.
type compileCache struct{ dir string }

// guestPrefix begins the names of the directories of guests.
const guestPrefix = "guest-"

// openCache opens the cache, after checking that only the user can write the code in
// it. It removes damaged files and returns their number.
func openCache(parent string, digest [sha256.Size]byte) (c *compileCache, damaged int, err error) {
	if err := owner.CheckStrictly(parent); err != nil { // before anything is created there
		return nil, 0, fmt.Errorf("%w (it holds native code)", err)
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, 0, err
	}
	info, err := os.Stat(parent) // follows a link, which the user may have made
	if err == nil {
		err = checkPrivate(parent, info)
	}
	if err != nil {
		return nil, 0, err
	}
	key := sha256.Sum256(append(digest[:], wazeroVersion()...)) // so that no other version's code is read to be verified
	dir := filepath.Join(parent, guestPrefix+hex.EncodeToString(key[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, 0, err
	}
	if info, err = os.Lstat(dir); err == nil {
		err = checkPrivate(dir, info)
	}
	if err != nil {
		return nil, 0, err
	}
	if damaged, err = verifyFiles(dir); err != nil {
		return nil, damaged, err
	}
	prune(parent, dir)
	return &compileCache{dir}, damaged, nil
}

// wazeroVersion returns the version of wazero in this binary; binaries of tests do not say it.
func wazeroVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/tetratelabs/wazero" {
			if m.Replace != nil {
				m = m.Replace
			}
			return m.Version
		}
	}
	return ""
}

// unusedAfter is the time without use after which the cache of another guest, from an
// older or newer binary, is removed. Each takes tens of megabytes.
const unusedAfter = 30 * 24 * time.Hour

// prune marks the cache in dir as used, and removes other caches that were not used for
// a long time, and temporary folders of processes that were killed. It ignores errors:
// what stays does no harm.
func prune(parent, dir string) {
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	others, _ := filepath.Glob(filepath.Join(parent, guestPrefix+"*"))
	for _, other := range others {
		if info, err := os.Lstat(other); err == nil && info.IsDir() && now.Sub(info.ModTime()) > unusedAfter {
			_ = os.RemoveAll(other)
		}
	}
	left, _ := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && info.IsDir() && now.Sub(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(path)
		}
	}
}

// codeName is the name of the file that native code is mapped from (code_linux.go). It
// has no checksum, because it is compared with the code in memory.
const codeName = "code"

// sumSuffix is the suffix of the file with the checksum of the file beside it.
const sumSuffix = ".crc32c"

// staleAfter is the age above which an unfinished file is a leftover.
const staleAfter = time.Hour

// verifyFiles removes each file below dir that does not match its checksum or has none.
// If another process is just about to write the checksum, the code is compiled once more.
func verifyFiles(dir string) (damaged int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case unfinished(d.Name()):
			if time.Since(info.ModTime()) > staleAfter {
				return remove(path)
			}
			return nil
		case d.Name() == codeName:
			return nil
		case strings.HasSuffix(path, sumSuffix):
			if _, err := os.Stat(strings.TrimSuffix(path, sumSuffix)); errors.Is(err, fs.ErrNotExist) {
				return remove(path)
			}
			return nil
		}
		want, err := regular.Read(context.Background(), path+sumSuffix, maxSum)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		got, err := fileSum(path)
		if err != nil || got == string(want) {
			return err
		}
		damaged++
		return errors.Join(remove(path), remove(path+sumSuffix))
	})
	return damaged, err
}

// seal writes the checksum of a file.
func (c *compileCache) seal(path string) error {
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	return regular.Write(path+sumSuffix, []byte(sum), 0o600)
}

// unfinished reports whether a file is one that is being written.
func unfinished(name string) bool {
	return strings.HasSuffix(name, ".tmp") || strings.HasPrefix(name, regular.TempPrefix)
}

// remove removes a file that another process may have removed.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxSum is the length of the longest result of fileSum.
const maxSum = 8 + 1 + 20 + 1

// fileSum returns the checksum of a file, with its size.
func fileSum(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	// Without WriterTo, which copies in smaller parts.
	n, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 256<<10))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x %d\n", h.Sum32(), n), nil
}

// checkPrivate checks that a directory belongs to the user and that others cannot read
// or write it, as far as the system shows that.
func checkPrivate(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("%s: not a directory", dir)
	}
	return checkOwner(dir, info)
}

// discard removes everything in a cache that did not load.
func (c *compileCache) discard() error { return os.RemoveAll(c.dir) }
