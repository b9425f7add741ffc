package regular

import (
	"os"

	"github.com/gofrs/flock"
)

// NewLock returns a lock file (0600), not locked yet. Opening never waits for another process,
// wherever the name leads; locking may.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|noWait))
}
