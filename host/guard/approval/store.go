package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// Queue has the calls that wait for a decision, and the remembered decisions. All processes with
// the same Place share a queue. Concurrent use is safe.
type Queue struct {
	place documents.Place
	log   *slog.Logger
	now   func() time.Time
}

// OpenQueue returns the queue in the folder of a store, without touching a file. The caller must
// Close the queue.
func OpenQueue(store string, log *slog.Logger) *Queue {
	return NewQueue(documents.InFolder(store), log)
}

// NewQueue returns the queue in a Place, and owns the Place. The caller must Close the queue.
func NewQueue(in documents.Place, log *slog.Logger) *Queue {
	return &Queue{place: in, log: log, now: time.Now}
}

// Close declares: no call waits in this process any longer.
func (q *Queue) Close() { q.place.Close() }

// keys returns the keys, which are made with the first call.
func (q *Queue) keys(ctx context.Context) (*keys, error) {
	secret, err := q.place.Secret(ctx)
	if err != nil {
		return nil, err
	}
	return newKeys(secret), nil
}

// all returns the documents of a kind. Unreadable documents are logged and left out.
func all[T any](q *Queue, d documents.Documents, kind string) ([]T, error) {
	ids, err := d.IDs(kind)
	var list []T
	for _, id := range ids {
		if !isID(id) {
			continue
		}
		var v T
		if err := d.Read(documents.Name{Kind: kind, ID: id}, &v); err == nil {
			list = append(list, v)
		} else if !errors.Is(err, fs.ErrNotExist) {
			q.log.Warn("an approval is ignored", "err", err)
		}
	}
	return list, err
}

// letters are the characters of ids: people type ids, so no two letters look alike or make words.
const letters = "23456789bcdfghjkmnpqrstvwxz"

// idLength is the length of an id.
const idLength = 5

// newID returns an id without a document.
func newID(d documents.Documents) (string, error) {
	taken := map[string]bool{}
	for _, kind := range []string{documents.Queue, documents.Remembered} {
		ids, err := d.IDs(kind)
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			taken[id] = true
		}
	}
	for {
		var random [idLength]byte
		_, _ = rand.Read(random[:]) // never fails
		for i, b := range random {
			random[i] = letters[int(b)%len(letters)] // security does not depend on ids being hard to guess
		}
		if id := string(random[:]); !taken[id] {
			return id, nil
		}
	}
}

// isID reports whether text has the form of an id, and so is no path.
func isID(text string) bool {
	return len(text) == idLength && strings.Trim(text, letters) == ""
}

// unknown returns the error for an id without an approval.
func unknown(id string) error {
	if !isID(id) {
		id = quote(id, maxName)
	}
	return fmt.Errorf("%s: %w", id, ErrUnknown)
}
