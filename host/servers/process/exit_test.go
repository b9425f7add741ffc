package process

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestLateExitStatus ends a server with an exit status that is known some time after the end of the
// output, as on a busy machine: the reason of the end has the status, or else comes soon.
func TestLateExitStatus(t *testing.T) {
	for after, want := range map[time.Duration]string{
		900 * time.Millisecond: "its process ended: exit status 3 (what it wrote to stderr is in the log)",
		time.Hour:              "it closed its output",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Process{exitWait: defaultExitWait, state: "exit status 3", stateKnown: make(chan struct{})}
			known := time.AfterFunc(after, func() { close(p.stateKnown) })
			defer known.Stop()
			if got := p.EndReason(io.EOF); got != want {
				t.Errorf("status after %v: %q, want %q", after, got, want)
			}
		})
	}
}
