package servers

import (
	"context"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// listState tracks the announced changes of a surface. announced >= begun >= listed.
type listState struct {
	announced uint64 // number of announcements so far
	begun     uint64 // announced when the last listing began
	listed    uint64 // announced when the last finished listing began
	// since is the time of the first announcement not covered by a finished listing, and sinceBegun
	// the time of the first announcement after the last listing began.
	since, sinceBegun time.Time
	reading           bool               // from listings.begin to endListing
	heard             bool               // the server has announced a change since the last listing began
	notice            []byte             // params of the last announcement; nil for none
	fresh             envelope.Freshness // of the last list, except for Read, the time of the last attempt to read the list
}

// announced maps each list_changed notification to the changed surfaces.
var announced = func() map[string][]wire.Surface {
	m := make(map[string][]wire.Surface)
	for _, s := range wire.Surfaces {
		m[s.ChangedMethod()] = append(m[s.ChangedMethod()], s)
	}
	return m
}()

// announce records changed lists, and has serve read them again. Any number of changes to a list
// during a reading cause a single further listing. heard means: the server has announced the
// change, with params notice, or nil.
func (u *Upstream) announce(surfaces []wire.Surface, heard bool, notice []byte) {
	now := time.Now()
	u.mu.Lock()
	for _, s := range surfaces {
		l := u.lists[s]
		if l.announced == l.listed {
			l.since = now
		}
		if l.announced == l.begun {
			l.sinceBegun = now
		}
		l.announced++
		if heard {
			l.heard, l.notice = true, notice
		}
	}
	u.mu.Unlock()
	select {
	case u.relist <- struct{}{}:
	default: // the pending token's receiver sees this change too
	}
}

// ListChanged has a list read again because another process of the server has announced a change. n
// is the other process's notification.
func (u *Upstream) ListChanged(n wire.Inbound) { u.announce(announced[n.Method], true, n.Params) }

// changedLists returns the changed surfaces without a listing since the change, except surfaces
// being read.
func (u *Upstream) changedLists() []wire.Surface {
	u.mu.Lock()
	defer u.mu.Unlock()
	var surfaces []wire.Surface
	for _, s := range wire.Surfaces {
		if l := u.lists[s]; l.announced > l.begun && !l.reading {
			surfaces = append(surfaces, s)
		}
	}
	return surfaces
}

// noteReading notes that a surface is going to be listed.
func (u *Upstream) noteReading(s wire.Surface) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[s].reading = true
}

// beginListing is called before a surface is listed. covers is passed to endListing. heard means:
// the server has announced a change; notice is the params of the notification, or nil.
func (u *Upstream) beginListing(s wire.Surface) (covers uint64, notice []byte, heard bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	notice, l.notice = l.notice, nil
	heard, l.heard = l.heard, false
	l.begun = l.announced
	return l.begun, notice, heard
}

// endListing is called after a successful or failed listing of a surface; after a failure the old
// list stays.
func (u *Upstream) endListing(s wire.Surface, covers uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	l.listed, l.reading = covers, false
	l.since = l.sinceBegun // meaningless without an announcement since
	close(u.listingEnded)
	u.listingEnded = make(chan struct{})
}

// rereadExpired has lists read again after the time that the server allows to keep them, unless the
// server announces changes. Otherwise a client that asks for a list again would never see a change.
func (u *Upstream) rereadExpired(surfaces []wire.Surface) {
	now := time.Now()
	var expired []wire.Surface
	u.mu.Lock()
	for _, s := range surfaces {
		if l := u.lists[s]; u.status.State == Ready && l.announced == l.listed && l.fresh.Expired(now) && now.Sub(l.fresh.Read) >= u.timings.reread {
			l.fresh.Read = now // also if reading fails
			expired = append(expired, s)
		}
	}
	u.mu.Unlock()
	if len(expired) > 0 {
		u.announce(expired, false, nil)
	}
}

// Changing reports whether the server has announced a change of any of these surfaces without a
// listing since.
func (u *Upstream) Changing(surfaces ...wire.Surface) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.State == Ready && slices.ContainsFunc(surfaces, func(s wire.Surface) bool {
		return u.lists[s].announced > u.lists[s].listed
	})
}

// AwaitLists waits until the announced changes of these surfaces are listed: OnList has returned,
// or reading the list has failed. The wait ends at the latest wait after the announcement of the
// oldest change, or when ctx ends. AwaitLists does not wait while the upstream is down. Expired
// lists are read again, and count as changed.
func (u *Upstream) AwaitLists(ctx context.Context, wait time.Duration, surfaces ...wire.Surface) {
	u.rereadExpired(surfaces)
	var targets []uint64
	for {
		u.mu.Lock()
		if targets == nil {
			targets = make([]uint64, len(surfaces))
			for i, s := range surfaces {
				targets[i] = u.lists[s].announced
			}
		}
		var deadline time.Time
		now := time.Now()
		for i, s := range surfaces {
			l := u.lists[s]
			if late := l.since.Add(wait); l.listed < targets[i] && late.After(now) && late.After(deadline) {
				deadline = late
			}
		}
		ready, ended, stateChanged := u.status.State == Ready, u.listingEnded, u.stateChanged
		u.mu.Unlock()
		if !ready || deadline.IsZero() {
			return
		}
		timer := time.NewTimer(deadline.Sub(now))
		select {
		case <-ended:
		case <-stateChanged:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
