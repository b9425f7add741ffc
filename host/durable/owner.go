package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Owner is this process as an owner of leases. Others see when it ends, however it does.
type Owner struct {
	Name string
	lock *flock.Flock
}

// NewOwner returns a new owner. The caller must Close it, after all of its runs.
func (d *Folder) NewOwner() (*Owner, error) {
	if _, err := owner.Check(d.dir); err != nil { // the journal warns of doubts about the folder above
		return nil, err
	}
	dir := filepath.Join(d.dir, ownerFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := store.NewID().String()
	lock := regular.NewLock(filepath.Join(dir, name))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%s: cannot be locked", lock.Path()), err)
	}
	if info, err := os.Stat(lock.Path()); err == nil {
		d.sweep(info.ModTime()) // the file is new
	}
	return &Owner{name, lock}, nil
}

// Close releases what others see.
func (o *Owner) Close() error {
	_ = os.Remove(o.lock.Path()) // otherwise a sweep does it
	return o.lock.Close()
}

// Alive reports whether the process of the owner with that name may still run.
func (d *Folder) Alive(name string) bool {
	path := filepath.Join(d.dir, ownerFolder, filepath.Base(name))
	if _, err := os.Stat(path); err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	lock := regular.NewLock(path)
	defer lock.Close()
	free, err := lock.TryRLock() // shared, so that two that look do not take each other for the owner
	return err != nil || !free
}

// How old files are that a sweep may remove: nobody is making them just now.
const (
	ownerAge  = time.Minute
	remainAge = time.Hour
)

// sweep removes the files of owners that have ended, and what is left of runs that have no log:
// their process died when they began or ended. now is the time of the file system.
func (d *Folder) sweep(now time.Time) {
	remove := func(dir string, age time.Duration, which func(name string) bool) {
		entries, _ := os.ReadDir(dir) // the next sweep sees what is left
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > age && which(e.Name()) {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
	remove(filepath.Join(d.dir, ownerFolder), ownerAge, func(name string) bool { return !d.Alive(name) })
	hasLog := func(run string) bool {
		_, err := os.Stat(d.logPath(run))
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, collection := range []string{leases, cancels} {
		remove(filepath.Join(d.dir, collection), remainAge, func(name string) bool { return !hasLog(name) })
	}
	remove(d.dir, remainAge, func(name string) bool {
		run, ok := strings.CutSuffix(name, lockSuffix)
		return ok && store.CheckLog(run) == nil && !hasLog(run)
	})
}
