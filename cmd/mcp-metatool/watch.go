package main

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
	// gather is how long the files have to stay as they are until they count as
	// written: an editor may empty one before it fills it.
	gather = 100 * time.Millisecond
	// pollBlind is the interval of looking without notifications from the
	// system, pollSure with them: some file systems tell only of what their own
	// machine did.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// configFiles are the files that the configuration is looked for in, or others to
// be watched. Of a directory, it is which *.toml it has.
type configFiles []string

// fingerprint differs when what is in the files does, or which there are.
func (f configFiles) fingerprint() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range f {
		fmt.Fprintf(h, "%q ", name)
		if entries, err := os.ReadDir(name); err == nil {
			for _, e := range entries {
				if filepath.Ext(e.Name()) == ".toml" { // editors make files beside them
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
		_, err = io.Copy(h, io.LimitReader(file, 2<<20)) // above the size that is read
		fmt.Fprintf(h, " %v ", err)
		file.Close()
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// readAgain is the error of a file that can be read once only.
func readAgain(name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, and cannot be read again (end the server and start it anew)", name)
	}
	return nil
}

// dirs are the directories where a change of the files shows: theirs, and those
// of the files that they are links to.
func (f configFiles) dirs() []string {
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

// watch calls changed until ctx ends, each time that the files have become
// others than those of the fingerprint that known returns, and have stayed so
// for a moment. Once changed has returned, known has to return theirs. The
// caller gets told of SIGHUP, too: then hung is called.
func (f configFiles) watch(
	ctx context.Context, log *slog.Logger, known func() [sha256.Size]byte, changed func(), hangups <-chan struct{}, hung func(),
) {
	var events chan fsnotify.Event
	var errs chan error
	notify, err := fsnotify.NewWatcher()
	if err == nil {
		events, errs = notify.Events, notify.Errors
		defer notify.Close()
	} else {
		log.Warn("no notifications of changed files: looking at the configuration regularly instead", "interval", pollBlind, "err", err)
	}
	poll := time.NewTimer(f.attach(notify))
	defer poll.Stop()
	gathered := time.After(gather) // they may have changed before they were watched
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
		poll.Reset(f.attach(notify))
		now := f.fingerprint()
		switch {
		case now == known():
		case now != last: // it may still be written
			gathered = time.After(gather)
		default:
			changed()
		}
		last = now
	}
}

// attach makes the system's watch follow the names of the directories, since
// one that was deleted and made again is another. It returns when to look at
// the latest.
func (f configFiles) attach(notify *fsnotify.Watcher) time.Duration {
	if notify == nil {
		return pollBlind
	}
	for _, dir := range f.dirs() {
		if notify.Add(dir) != nil { // not there, perhaps: the next look tries again
			return pollBlind
		}
	}
	return pollSure
}
