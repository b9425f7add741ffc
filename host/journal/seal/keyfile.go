package seal

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// KeyFile is the name of the file with the key of a folder.
const KeyFile = "journal-key.pem"

var keyFile = regular.KeyFile[PrivateKey]{
	Name: KeyFile, Lock: ".journal-key.lock", What: "the key that signs runs", Limit: 64 << 10,
	Parse: ParsePrivate,
	New: func() (PrivateKey, []byte) {
		key := NewPrivate()
		return key, key.PEM()
	},
}

// ReadKey reads a private key from a file. The error is fs.ErrNotExist for a missing file, or names
// the file and the remedy.
func ReadKey(ctx context.Context, path string) (PrivateKey, error) { return keyFile.Read(ctx, path) }

// LoadKey returns the key of a folder. If the key is missing, LoadKey makes the key and the folder.
// All processes that use the folder get the same key. Only the owner of the file can read the key.
func LoadKey(ctx context.Context, dir string) (PrivateKey, error) { return keyFile.Load(ctx, dir) }
