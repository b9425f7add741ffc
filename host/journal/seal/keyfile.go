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

// ReadKey reads a private key from a file. The error is fs.ErrNotExist if there is none, or names
// the file and says what to do.
func ReadKey(ctx context.Context, path string) (PrivateKey, error) { return keyFile.Read(ctx, path) }

// LoadKey returns the key of a folder, and makes it, and the folder, if there is none. All
// processes that use the folder get the same one. The file is readable for its owner only.
func LoadKey(ctx context.Context, dir string) (PrivateKey, error) { return keyFile.Load(ctx, dir) }
