package streamable

import (
	"context"
	"log/slog"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
)

// mainStream is the stream of messages that belong to no call: the server's messages come on the
// GET stream, and each of ours is sent with a POST.
type mainStream struct{ link *Link }

// TrySend implements rpc.Stream. Calls have streams of their own.
func (m *mainStream) TrySend(f rpc.Frame) bool {
	m.send(f, "a message", slog.LevelWarn)
	return true
}

// Send implements rpc.Stream.
func (m *mainStream) Send(_ context.Context, f rpc.Frame) error {
	m.send(f, "a message", slog.LevelWarn)
	return nil
}

// Push implements rpc.Stream.
func (m *mainStream) Push(f rpc.Frame) error {
	m.send(f, "a cancellation", slog.LevelDebug)
	return nil
}

// Withdraw implements rpc.Stream.
func (m *mainStream) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream: Finish posts the answer to a request of the server.
func (m *mainStream) Finish(f rpc.Frame) {
	if f.Data != nil {
		m.send(f, "the answer to a request of the server", slog.LevelWarn)
	}
}

func (m *mainStream) send(f rpc.Frame, label string, level slog.Level) {
	if !m.link.postInBackground(f.Data, label, level, func() { f.Done(rpc.Written, nil) }) {
		f.Done(rpc.Unsent, nil)
	}
}
