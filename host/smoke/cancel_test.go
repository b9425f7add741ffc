package smoke

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCancelWatcher checks which messages after a cancellation are reported.
func TestCancelWatcher(t *testing.T) {
	fine := func(context.Context) error { return nil }
	hour := time.Hour
	for _, tt := range []struct {
		name        string
		within      time.Duration
		ping        func(context.Context) error
		before      []string // sent before watch is called
		afterCancel []string // beginnings of the problems
	}{
		{"silent", time.Millisecond, fine, nil, nil},
		{"an answer on the way", hour, fine, []string{"progress", "an answer"}, nil},
		{"no ping", time.Millisecond, func(context.Context) error { return errors.New("x") }, nil, []string{"the server does not answer a ping within 1ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &cancelWatcher{}
			for _, what := range tt.before {
				w.late(what)
			}
			_, got := w.watch(t.Context(), tt.within, tt.ping)
			checkAfterCancel(t, got, tt.afterCancel)
		})
	}
	t.Run("goes on", func(t *testing.T) {
		w := &cancelWatcher{}
		within := time.Millisecond
		stopped, got := w.watch(t.Context(), within, func(ctx context.Context) error {
			<-ctx.Done() // the time that the server has to stop
			for _, what := range []string{"progress", "progress", "an answer"} {
				w.late(what)
			}
			return nil // the watch waits for it
		})
		checkAfterCancel(t, got, []string{"progress came ", "an answer came "})
		if stopped < within {
			t.Errorf("stopped after %s", stopped)
		}
	})
}

func checkAfterCancel(t *testing.T, got, want []string) {
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
