package files

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// seen is a document as a watch has seen it last.
type seen struct {
	info    fs.FileInfo
	at      time.Time // when it was read
	version store.Version
}

// settled is after how long without a change the time of a file tells whether it has changed:
// file systems have coarse clocks, and give the number of a removed file to the next one.
const settled = 2 * time.Second

// same reports whether a file has the same attributes as when it was seen.
func (s *seen) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// unchanged reports whether a file cannot have changed since it was seen.
func (s *seen) unchanged(info fs.FileInfo) bool {
	return s.same(info) && s.at.Sub(info.ModTime()).Abs() > settled
}

// Watch implements [store.Store]. A document that is replaced is reported, even if it has what it
// had: others may have read what it had in between. One that is made and removed between two looks
// at the folder is not reported.
func (s *Store) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		what := "collection " + collection
		f, err := s.folder(collection)
		if err == nil {
			err = s.ended(ctx, what)
		}
		if err != nil {
			yield(store.Change{}, err)
			return
		}
		w := watch{store: s, folder: f, collection: collection, seen: map[string]seen{}, complained: map[string]bool{}}
		for ready := false; ; {
			changed := s.notify.watch(f.dir) // before looking, so that nothing is missed
			goOn, err := w.look(ctx, yield)
			switch {
			case !goOn:
				return
			case err != nil:
				s.opts.Log.Warn("a folder cannot be watched at the moment", "folder", f.dir, "err", err)
			case !ready:
				if !yield(store.Change{Ready: true}, nil) {
					return
				}
				ready = true
			}
			if !s.wait(ctx, changed) {
				if err := s.ended(context.Background(), what); err != nil {
					yield(store.Change{}, err)
				}
				return
			}
		}
	}
}

// watch is the state of one Watch.
type watch struct {
	store      *Store
	folder     folder
	collection string
	seen       map[string]seen // by the names of documents
	complained map[string]bool // documents that cannot be read, as the log says
}

// complain logs once that a document cannot be read. It counts as unchanged.
func (w *watch) complain(name string, err error) {
	if !w.complained[name] {
		w.complained[name] = true
		w.store.opts.Log.Warn("a document is ignored", "collection", w.collection, "document", name, "err", err)
	}
}

// look yields what has changed. It returns false when the caller wants no more, and an error if
// the folder cannot be read.
func (w *watch) look(ctx context.Context, yield func(store.Change, error) bool) (goOn bool, failed error) {
	paths, err := w.folder.paths()
	if err != nil {
		return true, err
	}
	if w.folder.nested {
		for _, path := range paths {
			w.store.notify.watch(filepath.Dir(filepath.Join(w.folder.dir, path)))
		}
	}
	for _, name := range sorted(paths) {
		if ctx.Err() != nil {
			return false, nil
		}
		d, changed, readErr := w.read(ctx, name, paths[name])
		if errors.Is(readErr, fs.ErrNotExist) { // it has just been removed, or is a link to nothing
			if _, err := os.Lstat(filepath.Join(w.folder.dir, paths[name])); err != nil {
				w.seen[name] = seen{} // it was there, even if it was never read
			}
			delete(paths, name)
			continue
		}
		if readErr != nil { // one document must not keep the others away
			w.complain(name, readErr)
			continue
		}
		if changed && !yield(store.Change{Document: d}, nil) {
			return false, nil
		}
	}
	for name := range w.seen {
		if _, there := paths[name]; !there {
			delete(w.seen, name)
			key := store.Key{Collection: w.collection, Name: name}
			if !yield(store.Change{Document: store.Document{Key: key}}, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// read reads a document if it can have changed, and reports whether it has.
func (w *watch) read(ctx context.Context, name, path string) (d store.Document, changed bool, err error) {
	before := w.seen[name]
	now := time.Now()
	info, err := os.Lstat(filepath.Join(w.folder.dir, path))
	if err != nil || before.unchanged(info) {
		return d, false, err
	}
	d, err = w.folder.read(ctx, store.Key{Collection: w.collection, Name: name}, path)
	if err != nil {
		return d, false, err
	}
	w.seen[name] = seen{info, now, d.Version}
	return d, !before.same(info) || d.Version != before.version, nil
}
