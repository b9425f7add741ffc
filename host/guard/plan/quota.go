package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Owners of plans, next to the principals of tokens.
const (
	operator  = ""          // of the commands
	anonymous = "anonymous" // all clients without a token together
)

// ownerOf returns the owner of the plans of an origin; nil is a command.
func ownerOf(o route.Origin) string {
	if o == nil {
		return operator
	}
	if p := o.Session().Principal(); p != "" {
		return "token " + p
	}
	return anonymous
}

// tagOf returns a name for an owner that is valid in file names.
func tagOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// quota bounds the kept plans of an owner. A new plan replaces the oldest of the owner's done
// plans. A plan that can still be applied is never replaced: the new plan is refused.
type quota struct {
	plans int
	bytes int64
}

// usual is the quota of every owner.
var usual = quota{plans: 1000, bytes: 256 << 20}

// entry is a plan in a Place.
type entry struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
	// Done is when the plan expires, or was applied.
	Done time.Time `json:"done"`
}

// Written is a plan for a Place.
type Written struct {
	Owner, ID string
	Data      []byte
	Done      time.Time // when the plan expires
}

func (w *Written) entry() entry { return entry{w.ID, int64(len(w.Data)), w.Done.UTC()} }

// FullError is the error for an owner with too many plans that are neither applied nor expired.
type FullError struct {
	Plans int // open plans
	Bytes int64
	Next  time.Time // when the first of them expires; zero for none
	Most  quota
}

func (e *FullError) Error() string {
	wait := ""
	if !e.Next.IsZero() {
		wait = fmt.Sprintf(", or wait until %s, when the first of them expires", e.Next.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("there is no room for another plan: %d with %s are kept that can still be applied (of one owner at most %d with %s): apply some of them%s",
		e.Plans, units.FormatSize(uint64(e.Bytes)), e.Most.plans, units.FormatSize(uint64(e.Most.bytes)), wait)
}

// room makes room for a new plan among the plans of its owner, the oldest first. room returns the
// plans to be removed, and the plans that remain with the new plan. The error is a *FullError.
func (q quota) room(all []entry, added entry, now time.Time) (removed, left []entry, err error) {
	n, bytes := 1, added.Size
	for _, e := range all {
		if e.ID != added.ID {
			n, bytes = n+1, bytes+e.Size
			left = append(left, e)
		}
	}
	left = slices.DeleteFunc(left, func(e entry) bool {
		goes := (n > q.plans || bytes > q.bytes) && !e.Done.After(now)
		if goes {
			n, bytes = n-1, bytes-e.Size
			removed = append(removed, e)
		}
		return goes
	})
	if n <= q.plans && bytes <= q.bytes {
		return removed, append(left, added), nil
	}
	full := &FullError{Plans: n - 1, Bytes: bytes - added.Size, Most: q}
	for _, e := range left {
		if e.Done.After(now) && (full.Next.IsZero() || e.Done.Before(full.Next)) {
			full.Next = e.Done
		}
	}
	return nil, all, full
}
