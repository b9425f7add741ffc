package budget

import "testing"

func TestHeapLimit(t *testing.T) {
	for _, test := range []struct{ all, runs, want int64 }{
		{1000, 375, 525},  // the default: three quarters of a half
		{1000, 10, 890},   // few scripts
		{1000, 5000, 250}, // more than the memory of the machine
	} {
		if got := heapLimit(test.all, test.runs); got != test.want {
			t.Errorf("%d for scripts of %d leave %d, want %d", test.runs, test.all, got, test.want)
		}
	}
}
