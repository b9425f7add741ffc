package regular

import (
	"os"

	"github.com/gofrs/flock"
)

// NewLock returns a lock file (0600) that is not locked yet. Opening it never waits for
// another process, whatever its name leads to; locking it may.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|noWait))
}
