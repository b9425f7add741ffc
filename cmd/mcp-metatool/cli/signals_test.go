package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestRepeatedSignals(t *testing.T) {
	now := time.Now()
	first := received{syscall.SIGINT, now}
	for _, tt := range []struct {
		first  received
		signal os.Signal
		after  time.Duration
		want   bool
	}{
		{first, syscall.SIGINT, time.Millisecond, true},
		{first, syscall.SIGINT, sameSignal, false},
		{first, syscall.SIGTERM, time.Millisecond, false}, // a second signal of an impatient person
		{received{}, syscall.SIGINT, time.Millisecond, false},
	} {
		if got := tt.first.isRepeatedBy(tt.signal, now.Add(tt.after)); got != tt.want {
			t.Errorf("%v, then %v after %v: %v", tt.first.signal, tt.signal, tt.after, got)
		}
	}
}
