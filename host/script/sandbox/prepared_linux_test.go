package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// compiledInstance returns an instance that has compiled code by itself, after it was
// made from s.
func compiledInstance(t testing.TB, s *snapshot, code string) *instance {
	t.Helper()
	i := newInstance(Run{Request: request(code, "{}"), Caller: &fakeCaller{}, Repeats: true}, real().log)
	ctx := context.Background()
	err := i.splitRequest(true)
	if err == nil {
		err = i.start(ctx, s)
	}
	if err == nil && !i.compiled {
		err = i.compile(ctx)
	}
	if err != nil || i.responded {
		t.Fatal(err, i.scriptErr)
	}
	return i
}

// TestPreparedState checks that an instance that starts from a prepared state has exactly
// the memory and the globals of one that has just compiled the script, also if it was used
// for other scripts before, and with and without pagemap when it is restored.
func TestPreparedState(t *testing.T) {
	s := ownSnapshot(t)
	state := func(i *instance) ([]byte, []uint64) {
		content, _ := i.module.Memory().Read(0, i.module.Memory().Size())
		var globals []uint64
		for _, g := range i.vm.state {
			globals = append(globals, g.Get())
		}
		return bytes.Clone(content), globals
	}
	code := func(n int) string {
		return fmt.Sprintf("def f%d(x):\n    return [x, 'text %d']\n%sreturn f%d(1)", n, n, strings.Repeat("x = 1\n", n*n), n)
	}
	type wanted struct {
		content []byte
		globals []uint64
	}
	var want []wanted
	for n := range 6 {
		i := compiledInstance(t, s, code(n))
		if i.prepared == nil {
			t.Fatalf("script %d: its state is not kept", n)
		}
		content, globals := state(i)
		want = append(want, wanted{content, globals})
		i.close()
	}
	rounds := 16
	if *long {
		rounds = 40
	}
	for round := range rounds {
		n := round * 7 % 6
		s.pool.settle()
		s.image.(*cowImage).precise = round%5 > 0
		i := compiledInstance(t, s, code(n))
		if !i.compiled {
			t.Fatalf("script %d: it is compiled again", n)
		}
		content, globals := state(i)
		if !bytes.Equal(content, want[n].content) || !slices.Equal(globals, want[n].globals) {
			t.Fatalf("round %d: the state of script %d differs at %d", round, n, difference(content, want[n].content))
		}
		if round%4 == 0 { // a run in between that writes more
			e := endings[round%len(endings)]
			if got, _ := e.run(t, s); got != e.want {
				t.Fatalf("%s: ended in %.200s, want %s", e.name, got, e.want)
			}
		}
		i.close()
	}
}
