package supervise

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Failure is the last failure of an upstream.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"` // with the last lines of stderr, and secrets masked
}

const (
	maxFailure = 64 << 10 // bytes
	// sameFailure is how long the same failure is not saved again: a server may fail every
	// few seconds for days.
	sameFailure = 10 * time.Minute
	failureFile = ".failure.json" // after the name of the upstream
)

// ServersDir returns the folder in which upstreams are remembered.
func ServersDir(store string) string { return filepath.Join(store, "servers") }

// LastFailure returns the remembered last failure of an upstream from the directory of a store;
// false if none is remembered.
func LastFailure(store, name string) (Failure, bool) {
	dir := ServersDir(store)
	if _, err := owner.Check(dir); err != nil {
		return Failure{}, false
	}
	data, err := regular.Read(context.Background(), filepath.Join(dir, name+failureFile), maxFailure)
	var f Failure
	if err != nil || json.Unmarshal(data, &f) != nil || f.At.IsZero() {
		return Failure{}, false
	}
	return f, true
}

// noteFailure remembers the failure of the upstream, for commands that explain the failure later.
// The commands see mistakes in the configuration themselves.
func (m *managedUpstream) noteFailure() {
	if m.conf.Load().Invalid != nil {
		return
	}
	f := Failure{At: time.Now().Truncate(time.Second), Error: m.env.mask(m.Status().Err)}
	m.saving.Lock()
	defer m.saving.Unlock()
	if f.Error == m.failure.Error && f.At.Sub(m.failure.At) < sameFailure || m.isRetired() {
		return
	}
	m.failure = f
	data, err := json.Marshal(f)
	if err != nil { // a text always encodes
		return
	}
	m.env.snapshots.saveAs(m.name+failureFile, m.name, append(data, '\n'))
}
