package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// presence is the document of this replica.
type presence struct {
	kick chan struct{} // of capacity 1: renew at once

	end atomic.Bool // when it has drained

	mu       sync.Mutex // a leaf
	info     Info
	counts   map[string]func() int64
	draining chan struct{} // closed by Drain

	version store.Version // only for keepPresent
	beat    uint64
}

func newPresence(info Info) *presence {
	return &presence{kick: make(chan struct{}, 1), info: info, counts: map[string]func() int64{}, draining: make(chan struct{})}
}

// SetPeer says at which URL other replicas reach this one; "" for nowhere.
func (f *Fleet) SetPeer(url string) {
	f.presence.mu.Lock()
	f.presence.info.Peer = url
	f.presence.mu.Unlock()
	f.renew()
}

// Count adds a figure to what the replica says about itself, such as "sessions". current is
// called at each renewal, must not block, and may be called until Close returns.
func (f *Fleet) Count(name string, current func() int64) {
	if f == nil {
		return
	}
	f.presence.mu.Lock()
	defer f.presence.mu.Unlock()
	f.presence.counts[name] = current
}

// Drain says that this replica gets no new sessions and takes nothing over, for good.
func (f *Fleet) Drain() {
	if f == nil {
		return
	}
	p := f.presence
	p.mu.Lock()
	first := !p.info.Draining
	if first {
		p.info.Draining = true
		close(p.draining)
	}
	p.mu.Unlock()
	if first {
		f.opts.Log.Info("this replica drains")
		f.renew()
	}
}

// Tell asks a replica to drain, and if end is set, to end when nothing is going on there any
// more.
func (f *Fleet) Tell(ctx context.Context, id string, end bool) error {
	data, err := json.Marshal(drainOrder{end})
	if err != nil {
		return err
	}
	for {
		d, err := f.store.Get(ctx, drainKey(id))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		_, err = f.store.Put(ctx, drainKey(id), d.Version, data)
		if !errors.As(err, new(*store.ConflictError)) || ctx.Err() != nil {
			return err
		}
	}
}

// drainOrder is the content of the document that asks a replica to drain.
type drainOrder struct {
	End bool `json:"end,omitempty"`
}

// ordered does what such a document says.
func (f *Fleet) ordered(data []byte) {
	var order drainOrder
	if json.Unmarshal(data, &order) == nil && order.End {
		f.EndDrained()
	}
	f.Drain()
}

// EndDrained makes EndsDrained return true.
func (f *Fleet) EndDrained() { f.presence.end.Store(true) }

// EndsDrained reports whether this process should end when it has drained.
func (f *Fleet) EndsDrained() bool { return f.presence.end.Load() }

// Draining is closed when this replica begins to drain. That of a nil Fleet is nil.
func (f *Fleet) Draining() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.presence.draining
}

// IsDraining reports whether this replica drains.
func (f *Fleet) IsDraining() bool {
	select {
	case <-f.Draining():
		return true
	default:
		return false
	}
}

// renew makes the document be renewed at once.
func (f *Fleet) renew() {
	select {
	case f.presence.kick <- struct{}{}:
	default:
	}
}

// Counts returns the present figures of Count by name.
func (f *Fleet) Counts() map[string]int64 {
	f.presence.mu.Lock()
	counts := maps.Clone(f.presence.counts)
	f.presence.mu.Unlock()
	now := map[string]int64{}
	for name, current := range counts {
		now[name] = current()
	}
	return now
}

// current returns the document as it should be now.
func (f *Fleet) current() document {
	p := f.presence
	p.mu.Lock()
	info := p.info
	p.mu.Unlock()
	info.Counts = f.Counts()
	info.Keys, info.Silent = f.opts.Ring.IDs(), f.registry.silent()
	return document{Info: info}
}

// keepPresent renews the document of this replica, and looks for others that do not, until ctx
// ends. Then it removes it.
func (f *Fleet) keepPresent(ctx context.Context) {
	ticker := time.NewTicker(f.opts.TTL / 4)
	defer ticker.Stop()
	for {
		if !f.opts.Observer {
			f.present(ctx)
		}
		news, old := f.registry.review()
		if news {
			f.registry.tell()
		}
		f.forget(ctx, old)
		select {
		case <-ctx.Done():
			f.leave(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		case <-f.presence.kick:
			sleep(ctx, time.Duration(float64(f.opts.TTL)*restBetween)) // a bound on how often others can make it
		}
	}
}

// restBetween is the least time between two renewals, as a part of the TTL.
const restBetween = 1.0 / 300

// leaveTime bounds the removal of the document.
const leaveTime = 300 * time.Millisecond

// present writes the document of this replica. It goes on where it was after an error: nobody
// else writes it, but somebody may have removed it.
func (f *Fleet) present(ctx context.Context) {
	p := f.presence
	ctx, cancel := context.WithTimeout(ctx, f.opts.TTL/4)
	defer cancel()
	d := f.current()
	p.beat++
	d.Beat, d.TTL = p.beat, int64(f.opts.TTL)
	data, err := json.Marshal(d)
	if err != nil {
		f.opts.Log.Error("the document of this replica cannot be written", "err", err)
		return
	}
	key := replicaKey(f.id)
	v, err := f.store.Put(ctx, key, p.version, data)
	if err == nil {
		p.version = v
		return
	}
	now, err := f.store.Get(ctx, key)
	switch {
	case err == nil:
		p.version = now.Version
	case errors.Is(err, store.ErrNotFound):
		p.version = ""
	default:
		return // it is tried again
	}
	if string(now.Data) != string(data) && ctx.Err() == nil {
		f.renew()
	}
}

// leave removes the document of this replica, and the one that has asked it to drain.
func (f *Fleet) leave(ctx context.Context) {
	if f.opts.Observer || f.Away() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := f.removeNow(ctx, replicaKey(f.id)); err != nil {
		f.opts.Log.Debug("the document of this replica stays until others remove it", "err", err)
	}
	if f.IsDraining() {
		_ = f.removeNow(ctx, drainKey(f.id)) // else it is there for nobody
	}
}

// removeNow removes a document whatever its version is, also one that was being written when
// that was given up.
func (f *Fleet) removeNow(ctx context.Context, key store.Key) error {
	for {
		d, err := f.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = f.store.Remove(ctx, key, d.Version)
		}
		if !errors.As(err, new(*store.ConflictError)) || ctx.Err() != nil {
			return err
		}
	}
}

// forget removes the documents of replicas that have been silent for long. If one of them comes
// back, it writes its document again.
func (f *Fleet) forget(ctx context.Context, old []*member) {
	if len(old) == 0 || f.opts.Observer {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.opts.TTL/4)
	defer cancel()
	for _, m := range old {
		if m.ID != f.id && f.store.Remove(ctx, replicaKey(m.ID), m.version) == nil {
			_ = f.removeNow(ctx, drainKey(m.ID)) // else it is there for nobody
		}
	}
}
