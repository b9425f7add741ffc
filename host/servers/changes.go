package servers

import (
	"context"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// listState tracks the changes that the server has announced for one surface.
// announced >= begun >= listed.
type listState struct {
	announced uint64 // number of announcements so far
	begun     uint64 // announced when the last listing began
	listed    uint64 // announced when the last finished listing began
	// since is when the first announcement came that no finished listing covers,
	// and sinceBegun the first one that came after the last listing began.
	since, sinceBegun time.Time
	reading           bool               // from listings.begin to endListing
	heard             bool               // the server has announced a change since the last listing began
	notice            []byte             // params of the last announcement; nil for none
	fresh             envelope.Freshness // of the last list, except that Read is when reading was last tried
}

// announced maps each list_changed notification to the surfaces it is about.
var announced = func() map[string][]wire.Surface {
	m := make(map[string][]wire.Surface)
	for _, s := range wire.Surfaces {
		m[s.ChangedMethod()] = append(m[s.ChangedMethod()], s)
	}
	return m
}()

// announce records that lists have changed, and has serve read them again. Any
// number of changes to a list while it is being read cause one more listing. heard says
// that the server has announced the change, with params notice; nil for none.
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
	default: // there is a token already; its receiver sees this change too
	}
}

// ListChanged has a list read again because another process of the server says that it has
// changed. n is its notification.
func (u *Upstream) ListChanged(n wire.Inbound) { u.announce(announced[n.Method], true, n.Params) }

// changedLists returns the surfaces with changes for which no listing has begun, without those
// that are being read.
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

// beginListing is called before a surface is listed. covers is passed to endListing.
// heard says that the server has announced a change, and notice is the params of its
// notification, nil for none.
func (u *Upstream) beginListing(s wire.Surface) (covers uint64, notice []byte, heard bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	notice, l.notice = l.notice, nil
	heard, l.heard = l.heard, false
	l.begun = l.announced
	return l.begun, notice, heard
}

// endListing is called after a surface was listed, or after listing it has failed;
// then the old list stays.
func (u *Upstream) endListing(s wire.Surface, covers uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lists[s]
	l.listed, l.reading = covers, false
	l.since = l.sinceBegun // meaningless if there was no announcement since
	close(u.listingEnded)
	u.listingEnded = make(chan struct{})
}

// rereadExpired has lists read again that the server has said may only be kept for a time
// that is over, unless it announces changes. Without that, a client that asks for a list
// again would never see a change.
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

// Changing reports whether the server has announced a change of one of these surfaces that
// has not been listed yet.
func (u *Upstream) Changing(surfaces ...wire.Surface) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.State == Ready && slices.ContainsFunc(surfaces, func(s wire.Surface) bool {
		return u.lists[s].announced > u.lists[s].listed
	})
}

// AwaitLists waits until the changes of these surfaces that the server has announced
// so far are listed: OnList has returned, or reading the list has failed. It waits at
// most for wait after the oldest of these changes was announced, or until ctx ends. It
// does not wait while the upstream is down. Lists that may not be kept any longer are read
// again, and count as changed.
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
