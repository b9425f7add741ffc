package supervise

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// Settled waits until the lists of each upstream are known, from this run or an earlier run.
// Settled waits at most startup_wait from the start of an upstream, and no longer than ctx.
func (u *Upstreams) Settled(ctx context.Context) { u.awaitStarts(ctx, u.cfg.Load().StartupWait, true) }

// Started is Settled for lists of this run only.
func (u *Upstreams) Started(ctx context.Context) { u.awaitStarts(ctx, u.cfg.Load().StartupWait, false) }

// awaitStarts is Settled (with remembered) or Started with a limit on the wait; 0: no
// wait.
func (u *Upstreams) awaitStarts(ctx context.Context, wait time.Duration, remembered bool) {
	if wait > 0 {
		u.await(ctx, wait, remembered)
	}
}

// changeWait bounds the wait for a list after the upstream has announced a change. The wait is
// short because a slow upstream must not delay the lists of all other upstreams.
const changeWait = 2 * time.Second

// Refreshed waits until the announced changes of these surfaces are in the catalog. Refreshed waits
// at most two seconds from an announcement, no longer than startup_wait, and no longer than ctx.
// Upstreams of sessions other than s (nil: of all sessions) are ignored.
func (u *Upstreams) Refreshed(ctx context.Context, s route.Session, surfaces ...wire.Surface) {
	wait := min(u.env.changeWait, u.cfg.Load().StartupWait)
	if wait <= 0 {
		return
	}
	for _, m := range u.all() {
		if up := m.running(); up != nil && (m.own == nil || m.own == s) {
			up.AwaitLists(ctx, wait, surfaces...)
		}
	}
}

// Statuses waits until every upstream has started or failed, or ctx ends, and
// returns their states in the order of the configuration.
func (u *Upstreams) Statuses(ctx context.Context) []servers.Status {
	u.await(ctx, 0, false)
	var all []servers.Status
	for _, m := range u.all() {
		all = append(all, m.Status())
	}
	return all
}

// await waits for the start of all upstreams, for each at most as long as wait (0: without limit),
// or until ctx ends. await does not wait for an upstream of a session if the same server has listed
// for another session. With remembered, await does not wait for an upstream with a snapshot of an
// earlier run.
func (u *Upstreams) await(ctx context.Context, wait time.Duration, remembered bool) {
	for _, m := range u.all() {
		if remembered && m.isRemembered() {
			continue
		}
		if _, listed := u.env.listed.Load(m.name); m.own != nil && listed {
			continue
		}
		m.awaitStart(ctx, wait)
		// After a replacement by a reload, wait for the replacement.
		for next := m; next.isRetired() && ctx.Err() == nil; {
			var err error
			if next, err = next.successor(nil); err != nil {
				break
			}
			next.awaitStart(ctx, wait)
		}
	}
}

// awaitStart waits until the upstream's first start is over, or has taken as long as wait (0:
// without limit; less if the upstream was late in the last run), or ctx ends. Before the start,
// awaitStart returns at once.
func (m *managedUpstream) awaitStart(ctx context.Context, wait time.Duration) {
	m.mu.Lock()
	up, begun := m.up, m.begun
	m.mu.Unlock()
	if up == nil {
		return
	}
	if wait == 0 {
		select {
		case <-up.Started():
		case <-ctx.Done():
		}
		return
	}
	late := time.NewTimer(time.Until(begun.Add(m.listWait(wait))))
	defer late.Stop()
	select {
	case <-up.Started():
	case <-ctx.Done():
	case <-late.C:
		m.noteLate()
	}
}
