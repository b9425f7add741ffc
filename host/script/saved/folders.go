package saved

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
)

// Folders is a store in files which has the saved tools of tokens in their own folders, under
// the names of collections that they have in the store of a fleet.
type Folders struct {
	store.Store
	own map[string]ownFolder // by the collection
}

type ownFolder struct {
	*files.Store
	collection string
}

// NewFolders returns the Folders of a store in dir, which they close, for tokens.
func NewFolders(inner store.Store, dir string, tokens []string, log *slog.Logger) *Folders {
	f := &Folders{inner, map[string]ownFolder{}}
	for _, token := range tokens {
		s := files.Open(files.Options{Dir: Place{Dir: dir, Token: token}.Folder(), Log: log})
		saved, versions := Place{Token: token}.Collections()
		f.own[saved], f.own[versions] = ownFolder{s, files.Tools}, ownFolder{s, files.History}
	}
	return f
}

// at returns the store of a document, and its key there.
func (f *Folders) at(key store.Key) (store.Store, store.Key) {
	if own, ok := f.own[key.Collection]; ok {
		return own.Store, store.Key{Collection: own.collection, Name: key.Name}
	}
	return f.Store, key
}

// Get implements [store.Store].
func (f *Folders) Get(ctx context.Context, key store.Key) (store.Document, error) {
	s, there := f.at(key)
	d, err := s.Get(ctx, there)
	d.Key = key
	return d, err
}

// Put implements [store.Store].
func (f *Folders) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	s, there := f.at(key)
	return s.Put(ctx, there, old, data)
}

// Remove implements [store.Store].
func (f *Folders) Remove(ctx context.Context, key store.Key, old store.Version) error {
	s, there := f.at(key)
	return s.Remove(ctx, there, old)
}

// Documents implements [store.Store].
func (f *Folders) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	s, there := f.at(store.Key{Collection: collection})
	return func(yield func(store.Document, error) bool) {
		for d, err := range s.Documents(ctx, there.Collection) {
			if d.Name != "" {
				d.Collection = collection
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// Watch implements [store.Store].
func (f *Folders) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	s, there := f.at(store.Key{Collection: collection})
	return func(yield func(store.Change, error) bool) {
		for c, err := range s.Watch(ctx, there.Collection) {
			if c.Name != "" {
				c.Collection = collection
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Close implements [store.Store].
func (f *Folders) Close() error {
	err := f.Store.Close()
	for _, own := range f.own { // each twice, which does not matter
		err = errors.Join(err, own.Close())
	}
	return err
}
