package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Info is what a replica says about itself.
type Info struct {
	ID string `json:"id"`
	// Name is for people, such as the name of the machine. Several replicas can have the same.
	Name string `json:"name,omitempty"`
	// Version is that of the product, and Guest the digest of its sandbox's guest: durable
	// runs are only continued with the guest that they were begun with.
	Version string `json:"version,omitempty"`
	Guest   string `json:"guest,omitempty"`
	// Peer is the URL at which other replicas reach it; "" for none.
	Peer string `json:"peer,omitempty"`
	// Started is when it was started, by its own clock: for people only.
	Started time.Time `json:"started"`
	// Draining says that it gets no new sessions and takes nothing over.
	Draining bool `json:"draining,omitempty"`
	// Keys are the ids of its keys of the fleet. It seals with the first one.
	Keys []string `json:"keys,omitempty"`
	// Silent are the ids of the replicas that it finds silent.
	Silent []string `json:"silent,omitempty"`
	// Counts are the figures of [Fleet.Count] by name.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// State is what this process knows about another replica. It is found by observation: a
// replica renews its document, and one whose renewals are missing for as long as it has said
// that each lasts is silent. No clock is compared with that of another machine. While this
// process is cut off from the store itself, states stay as they are.
type State int

// The states of replicas.
const (
	// Unknown says that the replicas have not been read yet.
	Unknown State = iota
	// Live says that the replica renews its document.
	Live
	// Silent says that the replica does not renew its document: it has died, hangs, or is cut
	// off from the store. It can still be at work, and come back.
	Silent
	// Gone says that there is no such replica: it has ended, or it was silent for long.
	Gone
)

func (s State) String() string { return [...]string{"unknown", "live", "silent", "gone"}[s] }

// Replica is a process of the fleet, as this process knows it.
type Replica struct {
	Info
	State State
	// Self says that it is this process.
	Self bool
	// Renewed is how long ago its last renewal was seen here.
	Renewed time.Duration
}

// Lost reports whether a replica does not answer any more, as far as is known.
func (r *Replica) Lost() bool { return r.State == Silent || r.State == Gone }

// document is the content of the document of a replica.
type document struct {
	Info
	Beat uint64 `json:"beat"` // grows with each renewal
	TTL  int64  `json:"ttl"`  // how long it lasts, in nanoseconds
}

// collection has the documents about the fleet: one of each replica, one that asks it to drain,
// and one that asks all of them to renew their documents.
const (
	collection    = "fleet"
	replicaPrefix = "replica/"
	drainPrefix   = "drain/"
	askName       = "ask"
)

func replicaKey(id string) store.Key {
	return store.Key{Collection: collection, Name: replicaPrefix + id}
}
func drainKey(id string) store.Key { return store.Key{Collection: collection, Name: drainPrefix + id} }

// Bounds on what a document may say of a replica: it is shown, and kept.
const (
	maxText   = 300 // bytes
	maxKeys   = 100
	maxCounts = 100
	minTTL    = time.Second
	maxTTL    = time.Hour
)

// readReplica reads the document of a replica; ok is false if it is none.
func readReplica(id string, data []byte) (d document, ok bool) {
	if json.Unmarshal(data, &d) != nil || d.ID != id || len(d.Name)+len(d.Version)+len(d.Guest)+len(d.Peer) > 4*maxText || len(d.Keys) > maxKeys || len(d.Counts) > maxCounts {
		return document{}, false
	}
	d.TTL = min(max(d.TTL, int64(minTTL)), int64(maxTTL))
	return d, true
}

// member is a replica whose document has been seen.
type member struct {
	document
	version store.Version
	seen    time.Time // when its last renewal was seen first, on our monotonic clock
	renewed bool      // it was seen to be renewed
	told    State     // what OnChange was called about
}

// changed reports whether two documents differ in what OnChange tells.
func changed(a, b *Info) bool {
	return a.Draining != b.Draining || a.Peer != b.Peer || a.Guest != b.Guest || a.Name != b.Name || a.Version != b.Version || !slices.Equal(a.Keys, b.Keys)
}

// idOf returns the id in the name of a document with a prefix.
func idOf(name, prefix string) (string, bool) {
	id, ok := strings.CutPrefix(name, prefix)
	return id, ok && id != ""
}
