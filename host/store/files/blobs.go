package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// blobPath returns the path of a blob: blobs/12/1234….
func (s *Store) blobPath(d store.Digest) string {
	return filepath.Join(s.opts.Dir, "blobs", string(d[:2]), string(d))
}

// PutBlob implements [store.Store].
func (s *Store) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	digest := store.DigestOf(data)
	what := "blob " + string(digest)
	if err := store.CheckBlob(data); err != nil {
		return "", err
	}
	if err := s.ended(ctx, what); err != nil {
		return "", err
	}
	if _, err := s.Blob(ctx, digest); err == nil {
		return digest, nil
	}
	path := s.blobPath(digest)
	if err := s.makeFolder(filepath.Dir(path)); err != nil {
		return "", s.failed(ctx, what, err)
	}
	if err := regular.Write(path, data, 0o600); err != nil {
		_, found := s.Blob(context.WithoutCancel(ctx), digest)
		if errors.Is(found, store.ErrNotFound) {
			found = fs.ErrNotExist
		}
		return "", s.unwritten(ctx, what, err, found)
	}
	return digest, nil
}

// Blob implements [store.Store].
func (s *Store) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	if err := digest.Check(); err != nil {
		return nil, err
	}
	what := "blob " + string(digest)
	if err := s.ended(ctx, what); err != nil {
		return nil, err
	}
	data, err := regular.Read(ctx, s.blobPath(digest), store.MaxBlob+store.Slack)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	case err != nil:
		return nil, s.failed(ctx, what, err)
	case store.DigestOf(data) != digest:
		return nil, &store.CorruptError{What: what, Reason: "its content has another digest"}
	}
	return data, nil
}

// DropBlob implements [store.Store].
func (s *Store) DropBlob(ctx context.Context, digest store.Digest) error {
	if err := digest.Check(); err != nil {
		return err
	}
	what := "blob " + string(digest)
	if err := s.ended(ctx, what); err != nil {
		return err
	}
	if err := os.Remove(s.blobPath(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed(ctx, what, err)
	}
	return nil
}
