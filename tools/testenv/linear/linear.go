// Package linear checks, in tests, that work grows no faster than the input: not with the square of
// the size, which lets a message of a megabyte cost minutes.
//
// No time is measured. Repeated work allocates repeatedly in nearly all code that reads foreign
// bytes, so the allocations of a function show the work.
package linear

import (
	"fmt"
	"runtime"
	"testing"
)

// Size is the size in bytes of the smallest compared input, large enough for the square of a number
// of members to exceed the rest.
const Size = 4 << 10

// work is the work of a function.
type work struct{ bytes, objects uint64 }

// slack is how much work may be done once, whatever the size of the input.
var slack = work{bytes: 1 << 20, objects: 400}

// most is how much more work an input four times as large may need. A doubling buffer may have
// doubled just before the end of the larger input, and sorting takes a little more.
const most = 8

// attempts is how often excessive work is measured again before the test fails: other goroutines of
// the process allocate too, and a pool may lose buffers at any time. Really disproportionate work
// is disproportionate each time.
const attempts = 5

// Check fails the test if do needs disproportionate work for larger inputs. input returns an input
// of about size bytes. The work of do must not depend on earlier calls.
func Check(t testing.TB, input func(size int) []byte, do func(input []byte)) {
	t.Helper()
	inputs := [3][]byte{input(Size), input(2 * Size), input(4 * Size)}
	do(inputs[0]) // work done once
	var problems []string
	for range attempts {
		if problems = disproportions(inputs, do); len(problems) == 0 {
			return
		}
	}
	for _, p := range problems {
		t.Errorf("%s", p)
	}
}

// disproportions measures the work for each input once.
func disproportions(inputs [3][]byte, do func(input []byte)) (problems []string) {
	var done [3]work
	before := now()
	for i, data := range inputs {
		do(data)
		after := now()
		done[i] = work{after.bytes - before.bytes, after.objects - before.objects}
		before = after
	}
	for _, larger := range []int{1, 2} {
		times := uint64(most >> (2 - larger))
		for _, c := range []struct {
			what                string
			small, large, slack uint64
		}{
			{"bytes allocated", done[0].bytes, done[larger].bytes, slack.bytes},
			{"objects allocated", done[0].objects, done[larger].objects, slack.objects},
		} {
			if c.large > times*c.small+c.slack {
				problems = append(problems, fmt.Sprintf("%s: %d for %d bytes of input, %d for %d", c.what, c.small, Size, c.large, Size<<larger))
			}
		}
	}
	return problems
}

// now returns the work of the process so far.
func now() work {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return work{m.TotalAlloc, m.Mallocs}
}
