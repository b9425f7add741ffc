package shadow

import (
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestSlots checks slots against an owner with any number of requests, and the reuse of returned
// slots.
func TestSlots(t *testing.T) {
	const each = 4
	fill := func(s *Slots, owner any) (n int) {
		for s.enter(owner, each) {
			n += each
		}
		return n
	}
	for _, tt := range []struct {
		most int
		want []int // slots taken by greedy owners, in sequence
	}{
		{4, []int{4, 0}},
		{8, []int{4, 4, 0}},
		{64, []int{32, 16, 8, 4, 4, 0}},
		{100, []int{48, 24, 12, 8, 4, 4, 0}},
	} {
		s := NewSlots(tt.most)
		for i, want := range tt.want {
			if got := fill(s, i); got != want {
				t.Errorf("%d slots: owner %d has %d of them, want %d", tt.most, i, got, want)
			}
		}
		for i, n := range tt.want {
			s.leave(i, n)
		}
		if s.Taken() != 0 || len(s.by) != 0 || fill(s, "another") != tt.want[0] {
			t.Errorf("%d slots: %d taken, by %v", tt.most, s.Taken(), s.by)
		}
	}
	s := NewSlots(64)
	fill(s, "a")
	s.SetMost(8)
	if s.enter("b", each) {
		t.Error("there are fewer slots than are taken")
	}
}
