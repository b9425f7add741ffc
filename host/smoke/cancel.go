package smoke

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// callAndCancel calls an upstream's tool and cancels the call, without a session in between. No
// session learns the outcome of a cancelled call, so only the connection to the upstream shows
// whether the server has stopped (MCP 2025-11-25, basic/utilities/cancellation).
func (l *live) callAndCancel(ctx context.Context, h *host.Host, c *Check, server, tool string) (*answer, error) {
	a := &answer{}
	w := &cancelWatcher{}
	limited, cancel := c.withCancelAfter(ctx)
	defer cancel()
	begun := time.Now()
	reply, err := h.Request(limited, server, wire.Call{
		Method: protocol.MethodToolsCall, Params: c.request(tool), Late: w.late,
		Progress: func(p []byte) { a.progress = append(a.progress, p) },
	})
	a.took = time.Since(begun)
	if err == nil {
		return a, a.setReply(reply)
	}
	if err := c.endError(limited, a, err); err != nil {
		return a, err
	}
	a.stopped, a.afterCancel = w.watch(ctx, c.within, func(ctx context.Context) error {
		_, err := h.Request(ctx, server, wire.Call{Method: protocol.MethodPing})
		return err
	})
	return a, nil
}

// cancelWatcher records the messages of a server for a cancelled call.
type cancelWatcher struct {
	mu      sync.Mutex
	seen    []lateMessage
	stopped chan struct{} // closed when an answer arrives; nil until watch waits
}

type lateMessage struct {
	text string
	at   time.Time
}

// late implements wire.Call.Late.
func (w *cancelWatcher) late(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, lateMessage{text, time.Now()})
	if text == anAnswer && w.stopped != nil {
		close(w.stopped)
		w.stopped = nil
	}
}

// anAnswer is the text that wire.Call.Late gets for a response.
const anAnswer = "an answer"

// watch watches for twice the time that the server has to stop, or until the server has answered
// after all. watch returns when the last message came, and the reasons to believe that the server
// did not stop in time.
func (w *cancelWatcher) watch(ctx context.Context, within time.Duration, ping func(context.Context) error) (stopped time.Duration, afterCancel []string) {
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
		afterCancel = append(afterCancel, fmt.Sprintf("the server does not answer a ping within %s", units.FormatDuration(within)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := map[string]bool{} // a single message about many progress notifications is enough
	for _, s := range w.seen {
		after := s.at.Sub(begun)
		stopped = max(stopped, after)
		if after > within && !reported[s.text] {
			reported[s.text] = true
			afterCancel = append(afterCancel, fmt.Sprintf("%s came %s later", s.text, rounded(after)))
		}
	}
	return stopped, afterCancel
}

// answered returns a channel that is closed when an answer has arrived.
func (w *cancelWatcher) answered() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	stopped := make(chan struct{})
	for _, s := range w.seen {
		if s.text == anAnswer {
			close(stopped)
			return stopped
		}
	}
	w.stopped = stopped
	return stopped
}
