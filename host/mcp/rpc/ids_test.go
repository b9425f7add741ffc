package rpc

import (
	"slices"
	"testing"
)

func TestIDsCannotBeGuessed(t *testing.T) {
	x, other := newIDs(), newIDs()
	const n = 100_000
	seen := make(map[int64]bool, n)
	rising, near := 0, 0
	before := int64(0)
	for i := int64(1); i <= n; i++ {
		id := x.next()
		if id < 1 || id > 1<<idBits || seen[id] {
			t.Fatalf("request %d has id %d", i, id)
		}
		seen[id] = true
		if x.nth(id) != i || x.id(i) != id || !x.issued(id) {
			t.Fatalf("id %d is of request %d, want %d", id, x.nth(id), i)
		}
		if id > before {
			rising++
		}
		if d := id - before; -64 < d && d < 64 {
			near++
		}
		before = id
	}
	if rising < n*4/10 || rising > n*6/10 || near > 10 {
		t.Errorf("of %d ids, %d are greater than the one before, and %d near it", n, rising, near)
	}
	if next := x.id(n + 1); x.issued(next) || x.issued(0) || x.issued(-1) {
		t.Error("an id that was not given out")
	}
	for _, id := range []int64{1, before, 1 << 40, 1<<63 - 1} {
		token := x.token(id)
		if got, ok := x.ofToken(token); !ok || got != id || len(token) != 34 {
			t.Errorf("token %s of %d is of %d, %t", token, id, got, ok)
		}
		if _, ok := other.ofToken(token); ok {
			t.Error("a token of another connection")
		}
		for i := 1; i < len(token)-1; i++ {
			forged := slices.Clone(token)
			if forged[i] = '0'; forged[i] == token[i] {
				forged[i] = '1'
			}
			if _, ok := x.ofToken(forged); ok {
				t.Errorf("token %s for %s", forged, token)
			}
		}
	}
	for _, raw := range []string{``, `1`, `"1"`, `null`, `"00000000000000000000000000000001"`, `"0000000000000000000000000000000g"`, `{"a":"bbbbbbbbbbbbbbbbbbbbbbbbbbbb"}`} {
		if id, ok := x.ofToken([]byte(raw)); ok {
			t.Errorf("token %s of %d", raw, id)
		}
	}
	if n := testing.AllocsPerRun(100, func() { x.next() }); n > 0 {
		t.Errorf("an id allocates %v objects", n)
	}
}

// TestIDsBeyondTheirBits checks the ids after 2^30 requests, which do not fit into 32
// bits.
func TestIDsBeyondTheirBits(t *testing.T) {
	x := newIDs()
	x.last = 1<<idBits - 1
	last, first := x.next(), x.next()
	if last > 1<<idBits || first <= 1<<idBits || x.nth(last) != 1<<idBits || x.nth(first) != 1<<idBits+1 {
		t.Errorf("ids %d and %d are of requests %d and %d", last, first, x.nth(last), x.nth(first))
	}
}

func BenchmarkID(b *testing.B) {
	x := newIDs()
	for b.Loop() {
		x.next()
	}
}
