package regular

import (
	"io/fs"
	"path/filepath"
)

// Usage returns how many regular files there are below a folder, and their size in bytes.
// path can also be a file. Links below it are not followed; what cannot be read counts as
// nothing. It stops after most files.
func Usage(path string, most int) (files int, bytes int64) {
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
		if info, err := d.Info(); err == nil {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes
}
