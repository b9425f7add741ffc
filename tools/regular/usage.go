package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Usage returns the number of regular files below a folder, and their size in bytes. path can also
// be a file. Links below path are not followed; unreadable parts count as nothing. Usage stops
// after most files.
func Usage(path string, most int) (files int, bytes int64) { return new(Counter).Usage(path, most) }

// Counter counts a file with several names once, at the first name. The zero value has counted no
// file. A Counter is not safe for concurrent use.
type Counter struct{ counted map[look][]fs.FileInfo }

// look is the information shared by all names of a file on every system.
type look struct {
	size    int64
	changed time.Time
}

// Usage is like the function Usage, without the files counted by c.
func (c *Counter) Usage(path string, most int) (files int, bytes int64) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// The function returns no other error to stop the walk.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a removed file takes no space
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
