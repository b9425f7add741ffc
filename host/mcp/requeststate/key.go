package requeststate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

var keyFile = regular.KeyFile[[]byte]{
	Name: "request-state.key", Lock: ".request-state.lock", What: "the key", Limit: KeySize,
	Hint: " (remove the file to make a new key)",
	Parse: func(key []byte) ([]byte, error) {
		if len(key) != KeySize {
			return nil, fmt.Errorf("the key has %d bytes, not %d", len(key), KeySize)
		}
		return key, nil
	},
	New: func() ([]byte, []byte) {
		key := NewKey()
		return key, key
	},
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// LoadKey returns the key of a folder. If the key is missing, LoadKey makes the key and the folder.
// All processes that use the folder get the same key. Only the owner of the file can read the key.
// The error names the file and the remedy.
func LoadKey(ctx context.Context, dir string) ([]byte, error) { return keyFile.Load(ctx, dir) }
