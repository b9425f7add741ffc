package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const (
	// gather is how long the files must stay unchanged before a read: an editor may truncate a file
	// before writing.
	gather = 100 * time.Millisecond
	// pollBlind is the polling interval without notifications from the system, and pollSure the
	// interval with notifications. Polling is still needed then, since some file systems only
	// report changes by the same machine.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// ConfigFiles are files to watch, such as the possible configuration files. The files need not
// exist. In a directory, only the names of its *.toml are watched.
type ConfigFiles []string

// Fingerprint returns a hash of the names and contents of the files.
func (f ConfigFiles) Fingerprint() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range f {
		fmt.Fprintf(h, "%q ", name)
		if entries, err := os.ReadDir(name); err == nil {
			for _, e := range entries {
				if filepath.Ext(e.Name()) == ".toml" { // editors create other files next to the configuration
					fmt.Fprintf(h, "%q ", e.Name())
				}
			}
			continue
		}
		file, err := regular.Open(name)
		if err != nil {
			fmt.Fprintf(h, "%v ", err)
			continue
		}
		_, err = io.Copy(h, io.LimitReader(file, 2<<20)) // more than is read of a configuration
		fmt.Fprintf(h, " %v ", err)
		file.Close()
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// ReadAgain returns an error if a file can only be read once.
func ReadAgain(name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file and cannot be read again (restart the server)", name)
	}
	return nil
}

// dirs returns the directories to watch: the directories of the files and of their link targets.
func (f ConfigFiles) dirs() []string {
	var dirs []string
	for _, name := range f {
		dirs = append(dirs, filepath.Dir(name))
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			dirs = append(dirs, name)
		}
		if target, err := filepath.EvalSymlinks(name); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Watch is WatchFiles for a fixed set of files.
func (f ConfigFiles) Watch(
	ctx context.Context, log *slog.Logger, known func() [sha256.Size]byte, changed func(), hangups <-chan struct{}, hung func(),
) {
	WatchFiles(ctx, func() ConfigFiles { return f }, log, known, changed, hangups, hung)
}

// WatchFiles calls changed, until ctx ends, each time the fingerprint of the files differs from the
// result of known and has not changed for a moment. After changed, known must return the new
// fingerprint. WatchFiles also calls hung for each value from hangups. The set of files can change
// with each change.
func WatchFiles(
	ctx context.Context, files func() ConfigFiles, log *slog.Logger, known func() [sha256.Size]byte, changed func(), hangups <-chan struct{}, hung func(),
) {
	var events chan fsnotify.Event
	var errs chan error
	notify, err := fsnotify.NewWatcher()
	if err == nil {
		events, errs = notify.Events, notify.Errors
		defer notify.Close()
	} else {
		log.Warn("no notifications of changed files: checking the files regularly instead", "interval", pollBlind, "err", err)
	}
	poll := time.NewTimer(files().attach(notify))
	defer poll.Stop()
	gathered := time.After(gather) // the files may have changed before they were watched
	last := known()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			hung()
			continue
		case <-events:
			if gathered == nil {
				gathered = time.After(gather)
			}
			continue
		case <-errs: // events may have been lost
		case <-gathered:
			gathered = nil
		case <-poll.C:
		}
		poll.Reset(files().attach(notify))
		now := files().Fingerprint()
		switch {
		case now == known():
		case now != last: // they may still be being written
			gathered = time.After(gather)
		default:
			changed()
		}
		last = now
	}
}

// attach watches the directories that have the names now, since a directory may have been deleted
// and created again. attach returns the polling interval.
func (f ConfigFiles) attach(notify *fsnotify.Watcher) time.Duration {
	if notify == nil {
		return pollBlind
	}
	for _, dir := range f.dirs() {
		if notify.Add(dir) != nil { // the directory may not exist: the next call tries again
			return pollBlind
		}
	}
	return pollSure
}
