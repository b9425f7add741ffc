package regular

import (
	"os"

	"github.com/gofrs/flock"
)

// NewLock is a lock file (0600) that is not locked yet. Opening it does not wait
// for another process, whatever is in its place; locking it may.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|noWait))
}
