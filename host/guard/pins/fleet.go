package pins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A Keeper of a fleet has the pins from a Source, and a copy in its file for times without the
// store. New trust reaches the store before the first use, and is not granted while the store is
// away.

// whatFleet names the pins of a fleet in messages.
const whatFleet = "the pins of the fleet"

// base returns the lock from which a change of the pins of a fleet starts: the lock of the Source,
// else the copy, since pins do not disappear in normal operation, else the file from before the
// fleet.
func (s *state) base(ctx context.Context, data []byte) (*Lock, error) {
	if data == nil {
		var err error
		if data, err = firstFile(ctx, []string{s.path, s.seed}); err != nil {
			return nil, err
		}
	}
	if data == nil {
		return New(), nil
	}
	return Decode(data, whatFleet)
}

// updateShared is update for a fleet.
func (s *state) updateShared(ctx context.Context, f func() bool) error {
	var is *Lock
	var wrong *FileError
	err := s.shared.Change(ctx, func(before []byte) ([]byte, error) {
		read, err := s.base(ctx, before)
		if err != nil {
			errors.As(err, &wrong)
			return nil, err
		}
		is, s.lock = read, read.Clone()
		if !f() {
			return nil, nil
		}
		after, err := s.lock.Encode()
		if err == nil {
			is = s.lock
		}
		return after, err
	})
	if err != nil {
		if s.read(nil); wrong != nil { // the copy
			s.fault = err
		}
		return err
	}
	s.fault, s.lock = nil, is
	return s.copy(ctx)
}

// copy writes the lock into the file, for times without the store.
func (s *state) copy(ctx context.Context) error {
	data, err := s.lock.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	unlock, err := change.Lock(ctx, s.path)
	if err != nil {
		return err
	}
	defer unlock()
	if was, err := regular.Read(ctx, s.path, MaxFile); err != nil || !bytes.Equal(was, data) {
		if err := (regular.Place{Name: s.path}).Replace(data, Perm); err != nil {
			return err
		}
	}
	s.seen, s.existed = fingerprintOf(s.path), true
	return nil
}

// received takes over the pins of the Source; nil: the Source has none.
func (k *Keeper) received(ctx context.Context, data []byte) {
	k.change(func(now *state) {
		if data == nil {
			// The first replica gives the fleet the earlier pins.
			if err := now.updateShared(ctx, func() bool { return len(now.lock.servers) > 0 }); err != nil && ctx.Err() == nil {
				k.opts.Log.Warn("pins are not shared", "err", err)
			}
			return
		}
		l, err := Decode(data, whatFleet)
		if err != nil {
			now.fault = err
			return
		}
		now.fault, now.lock = nil, l
		if err := now.copy(ctx); err != nil && ctx.Err() == nil {
			k.opts.Log.Warn("the pins of the fleet are not copied to the file", "err", err)
		}
	})
}

// fetch reads the pins of the fleet for a command, which follows nothing and writes nothing. If the
// store does not answer, an existing copy counts.
func (s *state) fetch(ctx context.Context) {
	data, err := ReadFleet(ctx, s.shared, s.path, s.seed)
	if err != nil {
		if s.read(nil); s.fault == nil && !s.existed {
			s.fault = err
		}
		return
	}
	s.fault, s.lock = nil, New()
	if data == nil {
		return
	}
	l, err := Decode(data, whatFleet)
	if err != nil {
		s.fault = err
		return
	}
	s.lock, s.existed = l, true
}

// Source has the pins of a fleet. Concurrent use is safe, also by several processes.
type Source interface {
	// Read returns the content of a file with the pins; nil for a fleet without pins.
	Read(ctx context.Context) ([]byte, error)
	// Change calls f with the content, and writes the result of f, unless nil. f is called again if
	// another process has changed the pins in between.
	Change(ctx context.Context, f func(before []byte) (after []byte, err error)) error
	// Follow calls f with the pins, nil for none, and again each time when they have changed,
	// until ctx ends.
	Follow(ctx context.Context, f func(data []byte))
}

// Collection is the collection of the pins in the store of a fleet.
const Collection = "pins"

// lockKey is the only document.
var lockKey = store.Key{Collection: Collection, Name: "lock"}

// maxInline is the size of the largest file inside the document, in bytes. A larger file is in a
// blob.
const maxInline = 1 << 20

// sharedDocument is the content of the document.
type sharedDocument struct {
	Write string       `json:"write"` // unique among all forms
	File  []byte       `json:"file,omitempty"`
	Blob  store.Digest `json:"blob,omitempty"`
}

// source implements Source.
type source struct {
	docs store.Store
	log  *slog.Logger
}

// InFleet returns the pins of a fleet. The store must encrypt the documents.
func InFleet(docs store.Store, log *slog.Logger) Source { return &source{docs, log} }

// sourceTime bounds how long the store may take, unless the caller's context does.
const sourceTime = 3 * time.Second

func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, sourceTime, fmt.Errorf("it has not answered within %v", sourceTime))
}

// inStore adds the subject to an error of the store.
func inStore(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the pins in the store of the fleet: %w", err)
}

// get returns the pins and their document; nil, and Version "", without pins.
func (s *source) get(ctx context.Context) (file []byte, d store.Document, doc sharedDocument, err error) {
	for {
		before := d.Version
		d, err = s.docs.Get(ctx, lockKey)
		if errors.Is(err, store.ErrNotFound) {
			return nil, store.Document{}, doc, nil
		}
		if err != nil {
			return nil, d, doc, err
		}
		file, doc, err = s.open(ctx, d)
		if !errors.Is(err, store.ErrNotFound) || d.Version == before {
			return file, d, doc, err
		}
		// The blob was removed, so the document was replaced.
	}
}

// open returns the pins of a document.
func (s *source) open(ctx context.Context, d store.Document) (file []byte, doc sharedDocument, err error) {
	if err := json.Unmarshal(d.Data, &doc); err != nil {
		return nil, doc, &store.CorruptError{What: "document " + lockKey.String(), Reason: err.Error()}
	}
	if doc.Blob != "" {
		file, err = s.docs.Blob(ctx, doc.Blob)
		return file, doc, err
	}
	return doc.File, doc, nil
}

// Read implements [Source].
func (s *source) Read(ctx context.Context) ([]byte, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	file, _, _, err := s.get(ctx)
	return file, inStore(err)
}

// Change implements [Source].
func (s *source) Change(ctx context.Context, f func(before []byte) (after []byte, err error)) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	for {
		before, d, doc, err := s.get(ctx)
		if err != nil {
			return inStore(err)
		}
		after, err := f(before)
		if err != nil || after == nil {
			return err
		}
		next := sharedDocument{Write: store.NewID().String(), File: after}
		if len(after) > maxInline {
			next.File = nil
			if next.Blob, err = s.docs.PutBlob(ctx, after); err != nil {
				return inStore(err)
			}
		}
		_, err = store.PutOwn(ctx, s.docs, lockKey, d.Version, wire.Marshal(next))
		if err == nil && doc.Blob != "" {
			_ = s.docs.DropBlob(ctx, doc.Blob) // at worst, the blob stays
		}
		if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknown) {
			return inStore(err)
		}
		if next.Blob != "" {
			_ = s.docs.DropBlob(ctx, next.Blob)
		}
	}
}

// followAgain is the pause before a failed watch is tried again.
const followAgain = time.Second

// Follow implements [Source].
func (s *source) Follow(ctx context.Context, f func(data []byte)) {
	for said := ""; ctx.Err() == nil; {
		if err := s.follow(ctx, f); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			s.log.Warn("the pins are read again", "err", inStore(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

func (s *source) follow(ctx context.Context, f func(data []byte)) error {
	found := false
	for c, err := range s.docs.Watch(ctx, Collection) {
		switch {
		case err != nil:
			return err
		case c.Ready && !found:
			f(nil)
		case c.Ready || c.Name != lockKey.Name:
		case c.Version == "":
			s.log.Warn("the pins have disappeared from the store of the fleet; the known pins stay in force")
			f(nil)
		default:
			found = true
			file, _, err := s.open(ctx, c.Document)
			if errors.Is(err, store.ErrNotFound) {
				continue // the blob was replaced, and the next form comes
			}
			if err != nil {
				return err
			}
			f(file)
		}
	}
	return nil
}

// ReadFleet returns the pins of a fleet for a command, and nil without pins: the pins of s, else of
// the first existing file.
func ReadFleet(ctx context.Context, s Source, files ...string) (data []byte, err error) {
	if data, err = s.Read(ctx); data != nil || err != nil {
		return data, err
	}
	return firstFile(ctx, files)
}

// firstFile returns the content of the first existing file, nil for none.
func firstFile(ctx context.Context, files []string) ([]byte, error) {
	for _, file := range files {
		if file == "" {
			continue
		}
		data, err := regular.Read(ctx, file, MaxFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return nil, nil
}
