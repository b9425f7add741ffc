package flowtable

import (
	"fmt"
	"testing"
)

func TestZZ(t *testing.T) {
	r := newRig(t, common, nil)
	for seed := range uint64(25) {
		p := generate(seed, int(seed%2))
		a, b := r.twice(t, p, seed, int(seed%2))
		if false {
			fmt.Println(show(p))
		}
		msg := a.reply
		if len(msg) > 1200 {
			msg = msg[:1200]
		}
		fmt.Println(seed, a.failed, b.failed, len(a.events), a.sinks(int(seed%2)), b.sinks(int(seed%2)), a.result)
		if a.failed != "" {
			fmt.Println(msg)
		}
	}
}
