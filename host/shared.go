package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// sharedWork is the work of a replica on documents of its fleet in the background.
type sharedWork struct {
	ctx     context.Context
	stop    context.CancelFunc
	working sync.WaitGroup

	mu     sync.Mutex // a leaf
	closed bool
}

func newSharedWork() *sharedWork {
	ctx, stop := context.WithCancel(context.Background())
	return &sharedWork{ctx: ctx, stop: stop}
}

// start runs f with a context that ends with the Host.
func (w *sharedWork) start(f func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.working.Go(func() { f(w.ctx) })
	}
}

// Waits between attempts to do something in the store.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 10 * time.Second
)

// later runs f until f succeeds, or fails with another error than store.ErrUnavailable. Such an
// error is logged with a message.
func (w *sharedWork) later(f func(ctx context.Context) error, log *slog.Logger, message string) {
	w.start(func(ctx context.Context) {
		for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
			err := f(ctx)
			if ctx.Err() != nil || err == nil {
				return
			}
			if !errors.Is(err, store.ErrUnavailable) {
				log.Warn(message, "err", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	})
}

// close ends all work and waits for its end.
func (w *sharedWork) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.working.Wait()
}

// onReplicas calls f now, and whenever replicas have come or gone.
func (h *Host) onReplicas(f func(ctx context.Context) error, message string) {
	if h.fleet == nil || h.opts.Clients == NoClient {
		return
	}
	h.inFleet.start(func(ctx context.Context) {
		changed := make(chan struct{}, 1)
		stop := h.fleet.OnChange(func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		defer stop()
		for {
			if err := f(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
				h.opts.Log.Warn(message, "err", err)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
}

// closeShared ends the Host's work on the documents of its fleet, and then the fleet.
func (h *Host) closeShared() error {
	h.inFleet.close()
	h.approvals.Close()
	return h.fleet.Close()
}

// commandStore opens the store of a fleet for a command.
func commandStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*sealed.Store, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fleetTime, fmt.Errorf("no answer within %v", fleetTime))
	defer cancel()
	s, err := OpenFleet(ctx, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("the store of the fleet: %w", err)
	}
	return s, nil
}
