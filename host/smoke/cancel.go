package smoke

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// takeBack calls an upstream's tool and takes the call back, without a session in
// between: nobody is ever told what comes of such a call, so only the connection
// to the upstream shows whether the server has stopped (MCP 2025-11-25,
// basic/utilities/cancellation).
func (l *live) takeBack(ctx context.Context, h *host.Host, c *Check, server, tool string) (*answer, error) {
	a := &answer{}
	w := &watcher{}
	limited, cancel := c.takenBack(ctx)
	defer cancel()
	begun := time.Now()
	reply, err := h.Request(limited, server, wire.Call{
		Method: protocol.MethodToolsCall, Params: c.request(tool), Late: w.late,
		Progress: func(p []byte) { a.progress = append(a.progress, p) },
	})
	a.took = time.Since(begun)
	if err == nil {
		return a, a.take(reply)
	}
	if err := c.ended(limited, a, err); err != nil {
		return a, err
	}
	a.over, a.unheeded = w.watch(ctx, c.within, func(ctx context.Context) error {
		_, err := h.Request(ctx, server, wire.Call{Method: protocol.MethodPing})
		return err
	})
	return a, nil
}

// watcher sees what a server sends for a call that was taken back.
type watcher struct {
	mu   sync.Mutex
	seen []sighting
	over chan struct{} // closed by an answer; nil until watch waits for it
}

type sighting struct {
	what string
	at   time.Time
}

// late is wire.Call.Late.
func (w *watcher) late(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, sighting{what, time.Now()})
	if what == anAnswer && w.over != nil {
		close(w.over)
		w.over = nil
	}
}

// anAnswer is what wire.Call.Late says of one.
const anAnswer = "an answer"

// watch watches for twice as long as the server has to stop, or until it has
// answered after all. It returns when the server was done, and what speaks
// against its having stopped in time.
func (w *watcher) watch(ctx context.Context, within time.Duration, ping func(context.Context) error) (over time.Duration, unheeded []string) {
	begun := time.Now()
	waiting, cancel := context.WithTimeout(ctx, 2*within)
	defer cancel()
	pinged := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		pinged <- ping(ctx)
	}()
	select {
	case <-w.answered():
	case <-waiting.Done():
	}
	if err := <-pinged; err != nil {
		unheeded = append(unheeded, fmt.Sprintf("the server does not answer a ping within %s", units.FormatDuration(within)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	told := map[string]bool{} // of many notifications of progress the first will do
	for _, s := range w.seen {
		after := s.at.Sub(begun)
		over = max(over, after)
		if after > within && !told[s.what] {
			told[s.what] = true
			unheeded = append(unheeded, fmt.Sprintf("%s came %s later", s.what, rounded(after)))
		}
	}
	return over, unheeded
}

// answered is closed when an answer is there.
func (w *watcher) answered() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := make(chan struct{})
	for _, s := range w.seen {
		if s.what == anAnswer {
			close(over)
			return over
		}
	}
	w.over = over
	return over
}
