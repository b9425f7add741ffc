package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// versionOf returns the version of a document with some content.
func versionOf(data []byte) store.Version { return store.Version(store.DigestOf(data)[:32]) }

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	what := "document " + key.String()
	f, path, err := s.place(key)
	if err != nil {
		return store.Document{}, err
	}
	if err := s.ended(ctx, what); err != nil {
		return store.Document{}, err
	}
	d, err := f.read(ctx, key, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	case err != nil:
		return d, s.failed(ctx, what, err)
	}
	return d, nil
}

// read reads a document.
func (f *folder) read(ctx context.Context, key store.Key, path string) (store.Document, error) {
	root, err := regular.OpenRoot(f.dir)
	if err != nil {
		return store.Document{}, err
	}
	defer root.Close()
	data, err := regular.ReadIn(ctx, root, path, store.MaxDocument+store.Slack)
	if err != nil {
		return store.Document{}, err
	}
	return store.Document{Key: key, Version: versionOf(data), Data: data}, nil
}

// Put implements [store.Store].
func (s *Store) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if err := store.CheckDocument(data); err != nil {
		return "", errors.Join(key.Check(), err)
	}
	err := s.replace(ctx, key, old, func(root *os.Root, path string) error {
		err := regular.WriteIn(root, path, data, 0o600)
		if err == nil {
			return nil
		}
		what := "document " + key.String()
		now, look := regular.ReadIn(context.WithoutCancel(ctx), root, path, store.MaxDocument+store.Slack)
		if look == nil && (versionOf(now) != versionOf(data) || versionOf(now) == old) {
			look = errVoid
		}
		return s.unwritten(ctx, what, err, look) // it can be there, and not be after a crash of the machine
	})
	if err != nil {
		return "", err
	}
	return versionOf(data), nil
}

// Remove implements [store.Store].
func (s *Store) Remove(ctx context.Context, key store.Key, old store.Version) error {
	if old == "" {
		return errors.Join(key.Check(), &store.ConflictError{What: "document " + key.String()})
	}
	return s.replace(ctx, key, old, func(root *os.Root, path string) error {
		what := "document " + key.String()
		if err := root.Remove(path); err != nil {
			return s.failed(ctx, what, err)
		}
		if err := regular.SyncFolder(root, filepath.Dir(path)); err != nil {
			return unknown(what, err)
		}
		return nil
	})
}

// replace calls f while the folder of a document is locked, if the document has a version.
func (s *Store) replace(ctx context.Context, key store.Key, old store.Version, f func(*os.Root, string) error) error {
	what := "document " + key.String()
	at, path, err := s.place(key)
	if err != nil {
		return err
	}
	ctx, cancel, err := s.begin(ctx, what)
	if err != nil {
		return err
	}
	defer cancel()
	if err := s.makeFolder(filepath.Dir(filepath.Join(at.dir, path))); err != nil {
		return s.failed(ctx, what, err)
	}
	l, err := lock(ctx, at.lock)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	defer l.Close()
	now, err := at.read(ctx, key, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed(ctx, what, err)
	}
	if now.Version != old {
		return &store.ConflictError{What: what}
	}
	root, err := regular.OpenRoot(at.dir)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	defer root.Close()
	return f(root, path)
}

// maxFiles bounds the documents of a collection.
const maxFiles = 1_000_000

// paths returns the paths of the documents of a folder by their names. A folder that does not
// exist has none.
func (f *folder) paths() (map[string]string, error) {
	root, err := regular.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dirs := []string{"."}
	if f.nested {
		if dirs, err = regular.Names(root, ".", maxFiles); err != nil {
			return nil, err
		}
	}
	found := map[string]string{}
	for _, dir := range dirs {
		files, err := regular.Names(root, dir, maxFiles)
		if err != nil && f.nested { // a file, or a folder that has just been removed
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			path := filepath.Join(dir, file)
			if name, ok := f.name(path); ok {
				found[name] = path
			}
		}
	}
	return found, nil
}

// Documents implements [store.Store].
func (s *Store) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		f, err := s.folder(collection)
		if err == nil {
			err = s.ended(ctx, "collection "+collection)
		}
		if err != nil {
			yield(store.Document{}, err)
			return
		}
		paths, err := f.paths()
		if err != nil {
			yield(store.Document{}, s.failed(ctx, "collection "+collection, err))
			return
		}
		for _, name := range sorted(paths) {
			key := store.Key{Collection: collection, Name: name}
			d, err := f.read(ctx, key, paths[name])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue // it has just been removed
			case err != nil:
				d.Key, err = key, s.failed(ctx, "document "+key.String(), err)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

func sorted(paths map[string]string) []string {
	names := make([]string, 0, len(paths))
	for name := range paths {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
