package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Usage returns how many regular files there are below a folder, and their size in bytes.
// path can also be a file. Links below it are not followed; what cannot be read counts as
// nothing. It stops after most files.
func Usage(path string, most int) (files int, bytes int64) { return new(Counter).Usage(path, most) }

// Counter counts a file that has several names once, at the first of them. The zero value has
// counted none. It is not safe for concurrent use.
type Counter struct{ counted map[look][]fs.FileInfo }

// look is what the names of one file have in common on every system.
type look struct {
	size    int64
	changed time.Time
}

// Usage is like the function Usage, without what c has counted.
func (c *Counter) Usage(path string, most int) (files int, bytes int64) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// The function returns no error that stops the walk for another reason.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what is gone takes no space
		}
		if files == most {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && c.first(info) {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes
}

// first reports whether a file has not been counted yet.
func (c *Counter) first(info fs.FileInfo) bool {
	if info.Size() == 0 {
		return true
	}
	alike := look{info.Size(), info.ModTime()}
	if slices.ContainsFunc(c.counted[alike], func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return false
	}
	if c.counted == nil {
		c.counted = map[look][]fs.FileInfo{}
	}
	c.counted[alike] = append(c.counted[alike], info)
	return true
}
