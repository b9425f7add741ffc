package pins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
			s.log.Warn("somebody has removed the pins from the store of the fleet; those that were known stay in force")
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
