package sealed

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key is a key of a fleet. Its id is not secret: it is written beside what the key seals.
type Key struct {
	ID     string
	Secret [KeySize]byte
}

var keyIDs = lazyregexp.New(`^[a-z0-9-]{1,16}$`)

// ParseKey reads a key in the form ID:SECRET, where the secret is 32 bytes in base64. The error
// does not quote text.
func ParseKey(text string) (Key, error) {
	id, secret, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok || !keyIDs.MatchString(id) {
		return Key{}, fmt.Errorf("does not begin with an id of 1 to 16 of a-z 0-9 - and a colon (write ID:SECRET)")
	}
	data, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(data) != KeySize {
		return Key{}, fmt.Errorf("has no secret of %d bytes in base64 after %s: (make one with: head -c %[1]d /dev/urandom | base64)", KeySize, id)
	}
	k := Key{ID: id}
	copy(k.Secret[:], data)
	return k, nil
}

// Ring has the keys of a fleet. All of them open, and the first one seals. It is safe for
// concurrent use.
//
// To use a new key without downtime: give it to every process behind the old one, then give it
// to every process before the old one, then seal the documents again ([Store.ResealAll]), and take
// the old one away when [Store.Uses] counts nothing under it, and the blobs of that time are gone.
type Ring struct{ now atomic.Pointer[ring] }

// ring is a Ring at one time.
type ring struct {
	current string   // id
	order   []string // all ids
	keys    map[string]*derived
}

// NewRing returns a Ring with keys.
func NewRing(keys ...Key) (*Ring, error) {
	r := &Ring{}
	return r, r.Set(keys...)
}

// Set replaces the keys. The error says that there are none, or two with the same id.
func (r *Ring) Set(keys ...Key) error {
	if len(keys) == 0 {
		return fmt.Errorf("there is no key")
	}
	next := &ring{current: keys[0].ID, keys: map[string]*derived{}}
	before := r.now.Load()
	for _, k := range keys {
		if next.keys[k.ID] != nil {
			return fmt.Errorf("two keys have the id %s", k.ID)
		}
		next.order = append(next.order, k.ID)
		next.keys[k.ID] = &derived{secret: k.Secret}
		if before != nil && before.keys[k.ID] != nil && before.keys[k.ID].secret == k.Secret {
			next.keys[k.ID] = before.keys[k.ID]
		}
	}
	r.now.Store(next)
	return nil
}

// IDs returns the ids of the keys, in the order in which they were given: the first one seals.
func (r *Ring) IDs() []string { return slices.Clone(r.now.Load().order) }

// KeyError says that something was sealed with a key that is not in the Ring.
type KeyError struct{ What, ID string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("%s: is sealed with the key %s, which is not configured (add it behind the present key)", e.What, e.ID)
}

// Derive returns keys for something that is not in a Store, of KeySize bytes each, one of each key
// of the Ring. That of the key that seals is the first.
func (r *Ring) Derive(purpose string) [][]byte {
	now := r.now.Load()
	keys := [][]byte{now.keys[now.current].derive(purpose)}
	for _, id := range slices.Sorted(maps.Keys(now.keys)) {
		if id != now.current {
			keys = append(keys, now.keys[id].derive(purpose))
		}
	}
	return keys
}

func (d *derived) derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, d.secret[:], nil, "mcp-metatool fleet\x00"+purpose, KeySize)
	if err != nil {
		panic(err) // only lengths that are too large have errors
	}
	return key
}
