package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const (
	leastSpace = 1 << 30 // bytes
	// clockDoubt is how much newer than the clock a file may be.
	clockDoubt = 5 * time.Minute
	// maxFiles is how many files of a folder are looked at.
	maxFiles = 10000
)

// files looks at our folders and files.
func (e *examination) files() {
	journal := ""
	if e.Config != nil && e.Config.Journal.Enabled {
		journal = e.Config.JournalDir()
	}
	for _, dir := range []string{e.Store, journal} {
		if dir == "" {
			continue
		}
		if _, err := owner.Check(dir); err != nil {
			e.find(idFolderUnsafe, dir, "see docs/security.md, \"Folders that others can change\"", "%v", err)
		}
	}
	e.cache()
	e.space(journal)
	if e.Store == "" {
		return
	}
	newest := time.Time{}
	for _, dir := range []string{filepath.Join(e.Store, "oauth"), filepath.Join(e.Store, "servers"), filepath.Join(e.Store, "tools"), journal} {
		if dir != "" {
			e.modes(dir, dir == journal || filepath.Base(dir) == "oauth", &newest)
		}
	}
	if newest.Sub(e.Now) > clockDoubt {
		e.find(idClockBack, "", "set the clock (timedatectl, or the settings of the system)",
			"the clock says %s, but a file was changed at %s", e.Now.Format(time.RFC3339), newest.Format(time.RFC3339))
	}
}

// modes looks for private files in a folder that other users can read, and for the newest file.
func (e *examination) modes(dir string, private bool, newest *time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the folder is optional
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return
	}
	// Other users read nothing in a folder that does not let them in.
	private = private && runtime.GOOS != "windows" && folder.Mode().Perm()&0o011 != 0
	readable, first := 0, ""
	for _, entry := range entries[:min(len(entries), maxFiles)] {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if info.ModTime().After(*newest) {
			*newest = info.ModTime()
		}
		if private && info.Mode().Perm()&0o077 != 0 {
			if readable++; readable == 1 {
				first = fmt.Sprintf("%s (mode %#o)", entry.Name(), info.Mode().Perm())
			}
		}
	}
	switch {
	case readable == 1:
		e.find(idFileReadable, dir, shellquote.Join("chmod", "700", dir), "other users can read a file in it: %s", first)
	case readable > 1:
		e.find(idFileReadable, dir, shellquote.Join("chmod", "700", dir), "other users can read %d files in it, the first of them %s", readable, first)
	}
}

// cache looks at the cache of compiled code.
func (e *examination) cache() {
	if e.Cache == "" {
		e.find(idCacheNone, "cache", "set HOME, or XDG_CACHE_HOME", "there is no folder for it, so each start compiles the sandbox")
		return
	}
	if err := owner.CheckStrictly(e.Cache); err != nil {
		e.find(idCacheNone, e.Cache, shellquote.Join("chmod", "700", e.Cache)+", and the folders above it that others can change", "it is not used: %v", err)
		return
	}
	if _, size := regular.Usage(e.Cache, maxFiles); size > 0 {
		e.find(idCacheSize, e.Cache, "nothing has to be done; mcp-metatool cache clean removes it, and the next start makes it again", "the cache of compiled code has %d MB", (size+1<<20-1)>>20)
	}
}

// space looks for disks that are almost full.
func (e *examination) space(journal string) {
	var seen []string
	for _, dir := range []string{e.Store, journal, e.Cache} {
		dir = existing(dir)
		if dir == "" || slices.Contains(seen, dir) {
			continue
		}
		seen = append(seen, dir)
		if free, err := freeSpace(dir); err == nil && free < leastSpace {
			e.find(idDiskFull, dir, "remove files, or move the folder (dir of [store] or [journal])", "its disk has %d MB left", free>>20)
		}
	}
}

// existing returns the nearest existing folder: dir itself or a folder above.
func existing(dir string) string {
	for dir != "" {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
	return ""
}
