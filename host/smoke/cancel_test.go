package smoke

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestWatcher judges what a server sends for a call that was taken back.
func TestWatcher(t *testing.T) {
	fine := func(context.Context) error { return nil }
	hour := time.Hour
	for _, tt := range []struct {
		name     string
		within   time.Duration
		ping     func(context.Context) error
		before   []string // comes before the watch
		unheeded []string // beginnings
	}{
		{"silent", time.Millisecond, fine, nil, nil},
		{"an answer on the way", hour, fine, []string{"progress", "an answer"}, nil},
		{"no ping", time.Millisecond, func(context.Context) error { return errors.New("x") }, nil, []string{"the server does not answer a ping within 1ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &watcher{}
			for _, what := range tt.before {
				w.late(what)
			}
			_, got := w.watch(t.Context(), tt.within, tt.ping)
			checkUnheeded(t, got, tt.unheeded)
		})
	}
	t.Run("goes on", func(t *testing.T) {
		w := &watcher{}
		within := time.Millisecond
		over, got := w.watch(t.Context(), within, func(ctx context.Context) error {
			<-ctx.Done() // so long the server had
			for _, what := range []string{"progress", "progress", "an answer"} {
				w.late(what)
			}
			return nil // which the watch waits for
		})
		checkUnheeded(t, got, []string{"progress came ", "an answer came "})
		if over < within {
			t.Errorf("over after %s", over)
		}
	})
}

func checkUnheeded(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
