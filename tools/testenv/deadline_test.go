package testenv

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadline checks that deadlines are never shortened, and that virtual time is not scaled.
func TestDeadline(t *testing.T) {
	if d := Deadline(time.Minute); d < time.Minute || d > 20*time.Minute {
		t.Errorf("a minute becomes %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		if d := Deadline(time.Minute); d != time.Minute {
			t.Errorf("in a bubble, a minute becomes %v", d)
		}
	})
}
