package clients

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options returns the options of a session with a backend.
func options(b Backend) Options {
	return Options{Backend: b, Name: "test", Version: "1.2.3", MaxMessage: 64 << 10, Log: slog.New(slog.DiscardHandler)}
}
