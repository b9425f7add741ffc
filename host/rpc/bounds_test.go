package rpc

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestGarbageLogOpensAgain(t *testing.T) {
	l := limiter{let: limiterBurst, skipped: 990} // a window long ago
	if n, ok := l.allow(); !ok || n != 990 {
		t.Errorf("a new window: %d, %v", n, ok)
	}
}

func TestLingering(t *testing.T) {
	now := time.Now()
	late := []lingering{{1, "a", now.Add(-1)}, {2, "b", now}, {3, "c", now.Add(1)}, {4, "d", now.Add(2)}}
	if got := expire(slices.Clone(late), now); len(got) != 2 || got[0].owner != "c" {
		t.Errorf("left: %v", got)
	}
	if got := expire(slices.Clone(late), now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestTasksAreBounded(t *testing.T) {
	s := newState(true)
	for i := range int64(3 * maxTasks) {
		s.keepTask(&call{id: i}, fmt.Sprint(i))
	}
	if len(s.tasks) != maxTasks || len(s.ongoing) != maxTasks || s.ongoing[2*maxTasks-1] != nil || s.ongoing[2*maxTasks] == nil {
		t.Errorf("%d tasks, %d ongoing", len(s.tasks), len(s.ongoing))
	}
	for i := range 3 * maxTasks {
		s.endTask(fmt.Sprint(i))
	}
	if len(s.tasks) != 0 || len(s.ongoing) != 0 {
		t.Errorf("%d tasks, %d ongoing after all have ended", len(s.tasks), len(s.ongoing))
	}
}
