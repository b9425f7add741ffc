package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

func (s *Store) blobSubject(d store.Digest) string { return s.opts.subject("blob", string(d)) }

// partSubject returns the subject of a part of a blob. Whoever writes the same blob writes the
// same parts.
func (s *Store) partSubject(d store.Digest, n int) string {
	return s.opts.subject("blobpart", string(d), strconv.Itoa(n))
}

// PutBlob implements [store.Store].
func (s *Store) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	if err := store.CheckBlob(data); err != nil {
		return "", err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	digest := store.DigestOf(data)
	what := "blob " + string(digest)
	body, n := data, 0
	if len(data) > s.parts {
		body = nil
		for ; n*s.parts < len(data); n++ {
			part := data[n*s.parts : min((n+1)*s.parts, len(data))]
			if _, err := s.publishAlways(ctx, newMessage(s.partSubject(digest, n), part)); err != nil {
				return "", failedParts(ctx, what, err)
			}
		}
	}
	msg := newMessage(s.blobSubject(digest), body, headerParts, fmt.Sprintf("%d %d %d", n, s.parts, len(data)))
	if maybe, err := s.publishAlways(ctx, msg); err != nil {
		if errors.Is(err, store.ErrFull) {
			return "", fullError(what, maybe, err)
		}
		return "", failed(ctx, what, maybe, err)
	}
	return digest, nil
}

// Blob implements [store.Store].
func (s *Store) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	if err := digest.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "blob " + string(digest)
	m, err := s.last(ctx, s.blobs, s.blobSubject(digest))
	if err != nil {
		return nil, failed(ctx, what, false, err)
	}
	if m == nil {
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	var count, part, size int
	if _, err := fmt.Sscanf(m.Header.Get(headerParts), "%d %d %d", &count, &part, &size); err != nil || size < 0 || size > store.MaxBlob+store.Slack || count > size {
		return nil, &store.CorruptError{What: what, Reason: "its message has a wrong header " + headerParts}
	}
	data := m.Data
	if count > 0 {
		if data, err = s.blobParts(ctx, what, digest, count, part, size); err != nil {
			return nil, err
		}
	}
	if store.DigestOf(data) != digest {
		return nil, &store.CorruptError{What: what, Reason: "its content has another digest"}
	}
	return data, nil
}

// blobParts reads the parts of a blob. Somebody with another size of messages can have written
// it, too, at the same time; then parts are too long or too short, and it is put again.
func (s *Store) blobParts(ctx context.Context, what string, digest store.Digest, count, part, size int) ([]byte, error) {
	data := make([]byte, 0, min(size, 16<<20)) // whoever operates NATS could say anything
	for n := range count {
		m, err := s.last(ctx, s.blobs, s.partSubject(digest, n))
		if err != nil {
			return nil, failed(ctx, what, false, err)
		}
		if m == nil || len(m.Data) != min(part, size-n*part) {
			return nil, &store.CorruptError{What: what, Reason: fmt.Sprintf("part %d is missing or has the wrong size (put it again)", n)}
		}
		data = append(data, m.Data...)
	}
	return data, nil
}

// DropBlob implements [store.Store].
func (s *Store) DropBlob(ctx context.Context, digest store.Digest) error {
	if err := digest.Check(); err != nil {
		return err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	return s.purge(ctx, "blob "+string(digest), s.blobs, 0, s.blobSubject(digest), s.opts.subject("blobpart", string(digest), "*"))
}
