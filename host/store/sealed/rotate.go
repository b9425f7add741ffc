package sealed

import (
	"context"
	"errors"
)

// collector is a Store that knows its collections.
type collector interface {
	Collections(ctx context.Context) ([]string, error)
}

// errCollections says that a Store does not know its collections.
var errCollections = errors.New("this store cannot list its collections")

func (s *Store) collections(ctx context.Context) ([]string, error) {
	c, ok := s.Store.(collector)
	if !ok {
		return nil, errCollections
	}
	return c.Collections(ctx)
}

// ResealAll is Reseal for all collections.
func (s *Store) ResealAll(ctx context.Context) (n int, err error) {
	names, err := s.collections(ctx)
	for _, name := range names {
		more, failed := s.Reseal(ctx, name)
		n, err = n+more, errors.Join(err, failed)
		if ctx.Err() != nil {
			break
		}
	}
	return n, err
}

// Use is how much is sealed with a key.
type Use struct{ Documents, Logs int }

// Uses returns what is sealed with which key, by its id. A log is counted under the key of its
// last event, and blobs are not counted. What is not sealed counts under "".
func (s *Store) Uses(ctx context.Context) (map[string]Use, error) {
	uses := map[string]Use{}
	for _, id := range s.ring.IDs() {
		uses[id] = Use{}
	}
	names, err := s.collections(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		for d, err := range s.Store.Documents(ctx, name) {
			if err != nil && d.Name == "" {
				return nil, err
			}
			id := keyID(d.Data)
			u := uses[id]
			u.Documents++
			uses[id] = u
		}
	}
	for l, err := range s.Store.Logs(ctx) {
		if err != nil {
			return nil, err
		}
		id := keyID(l.Data)
		u := uses[id]
		u.Logs++
		uses[id] = u
	}
	return uses, nil
}

// keyID returns the id of the key that something is sealed with; "" if it is not sealed.
func keyID(sealed []byte) string {
	if len(sealed) < 2 || sealed[0] != version || len(sealed) < 2+int(sealed[1]) {
		return ""
	}
	id := string(sealed[2 : 2+int(sealed[1])])
	if !keyIDs.MatchString(id) {
		return ""
	}
	return id
}
