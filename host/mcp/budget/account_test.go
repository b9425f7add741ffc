package budget

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const kib = 1 << 10

// TestAccount checks that an Account takes what it needs, and returns all of it.
func TestAccount(t *testing.T) {
	b := New(16 << 20)
	a := b.OpenUnread("a", 10*kib)
	add := func(n int) {
		t.Helper()
		if err := a.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	add(10 * kib)
	if f := b.Figures(); f.Used != 0 {
		t.Errorf("free bytes count: %+v", f)
	}
	add(1)
	if f := b.Figures(); f.Used != chunk {
		t.Errorf("%+v", f)
	}
	add(500 * kib)
	a.Sub(500*kib + 1)
	if f := b.Figures(); f.Used > 2*chunk || a.Used() != 10*kib {
		t.Errorf("%+v, %d bytes", f, a.Used())
	}
	add(200 * kib)
	a.Close()
	checkEmpty(t, b)

	a = (*Budget)(nil).OpenUnread("a", 0)
	if err := errors.Join(a.Add(1<<40), a.Set(1<<50)); err != nil || a.Used() != 0 {
		t.Error(err)
	}
	a.Sub(1)
	a.Close()
}

// TestOneAccountExceeds checks that an answer that is larger than the share of its client
// can be sent, to one client at a time, and that the others have their shares meanwhile.
func TestOneAccountExceeds(t *testing.T) {
	b := New(16 << 20) // 2 MiB for what is not read
	slow, other := b.OpenUnread("slow", 0), b.OpenUnread("other", 0)
	if err := slow.Add(1900 * kib); err != nil {
		t.Fatal(err)
	}
	var full *FullError
	if err := slow.Add(1900 * kib); !errors.As(err, &full) || full.Bytes != 3800*kib || full.Most != 2<<20 || full.Share >= 2<<20 || slow.Used() != 1900*kib {
		t.Errorf("a second one: %v, %d", err, slow.Used())
	}
	if text := full.Error(); text != "no memory: the messages that this client has not read would be 3800KiB, above the current share of 1820KiB, of 2MiB for all together" {
		t.Error(text)
	}
	if err := other.Add(1000 * kib); err != nil {
		t.Errorf("another client: %v", err)
	}
	if err := other.Add(1000 * kib); !errors.As(err, &full) {
		t.Errorf("a large answer of another client: %v", err)
	}
	slow.Sub(1900 * kib)
	if err := other.Add(1000 * kib); err != nil {
		t.Errorf("after it was read: %v", err)
	}
	if err := slow.Add(5 << 20); !errors.As(err, &full) {
		t.Errorf("more than all messages can have: %v", err)
	}
	slow.Close()
	other.Close()
	checkEmpty(t, b)
}

// TestAccountsOfAGroup checks that a principal with many sessions gets no more than one
// with a single session.
func TestAccountsOfAGroup(t *testing.T) {
	b := New(64 << 20)
	var all []*Account
	took := func(group string, sessions int) (bytes int64) {
		for n := range sessions {
			a := b.OpenUnread(Member{group, struct {
				group string
				n     int
			}{group, n}}, 0)
			for a.Add(chunk) == nil && a.beyond.Load() == 0 {
			}
			bytes += a.Used()
			all = append(all, a)
		}
		return bytes
	}
	many := took("many", 100)
	if left := b.ceiling(&Hold{kind: unread}) - b.in[ofUnread]; left < 800*kib {
		t.Errorf("100 sessions of one principal leave %d", left)
	}
	if modest := took("modest", 1); modest < 700*kib {
		t.Errorf("%d beside %d", modest, many)
	}
	for _, a := range all {
		a.Close()
	}
	checkEmpty(t, b)
}

// TestListsLeaveRoom checks that lists and sessions take nothing from each other, and
// leave room for messages.
func TestListsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(64 << 20)
		var all []*Account
		for _, server := range []string{"x", "y", "z"} {
			a := b.OpenList(server)
			for a.Add(chunk) == nil {
			}
			all = append(all, a)
		}
		if err := all[0].Add(1 << 20); err == nil || !strings.Contains(err.Error(), "lists of this server") {
			t.Error(err)
		}
		if used := all[0].Used(); all[0].Set(used+1<<20) == nil || all[0].Set(100*kib) != nil || all[0].Used() != 100*kib {
			t.Errorf("%d of %d", all[0].Used(), used)
		}
		s := b.OpenSession(Member{"p", "s"})
		if err := s.Set(1 << 20); err != nil {
			t.Error(err)
		}
		h := b.Open("a")
		got(t, start(t.Context(), h, 2<<20))
		late := b.Open("b")
		big := start(t.Context(), late, 10<<20)
		waits(t, big)
		time.Sleep(2 * escalateAfter)
		got(t, big) // one message may exceed
		for _, a := range append(all, s) {
			a.Close()
		}
		h.Close()
		late.Close()
		checkEmpty(t, b)
	})
}

// TestAccountRace adds and takes away bytes on many goroutines.
func TestAccountRace(t *testing.T) {
	b := New(16 << 20)
	var all sync.WaitGroup
	for _, key := range []string{"a", "b"} {
		a := b.OpenUnread(key, chunk)
		all.Go(func() {
			defer a.Close()
			var users sync.WaitGroup
			for n := range 8 {
				users.Go(func() {
					for i := range 2000 {
						size := (n*7919 + i*104729) % (300 * kib)
						if a.Add(size) == nil {
							a.Sub(size)
						}
					}
				})
			}
			users.Wait()
			if a.Used() != 0 || a.beyond.Load() != 0 {
				t.Errorf("%d bytes, %d beyond", a.Used(), a.beyond.Load())
			}
		})
	}
	all.Wait()
	checkEmpty(t, b)
	if b.beyond != nil {
		t.Error("an account still exceeds the budget")
	}
}

// TestMostModestAnswer checks that a server with many unread answers does not
// keep others from the bytes that they need.
func TestMostModestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(3200) // 800 for messages
		var held []*Hold
		open := func(server string, n int64) <-chan error {
			h := b.OpenAnswer(server)
			held = append(held, h)
			return start(t.Context(), h, n)
		}
		got(t, open("greedy", 700))
		greedy := open("greedy", 300)
		waits(t, greedy)
		got(t, open("modest", 80))
		modest := open("modest", 300)
		waits(t, modest)
		time.Sleep(2 * escalateAfter)
		got(t, modest)
		waits(t, greedy)
		for _, h := range held[:1] {
			h.Close()
		}
		got(t, greedy)
		for _, h := range held {
			h.Close()
		}
		checkEmpty(t, b)
	})
}

// TestKeptLeavesSessions checks that what is kept for clients takes exactly what it needs, that
// one of them cannot have all of it, and that all together leave room for sessions.
func TestKeptLeavesSessions(t *testing.T) {
	b := New(64 << 20) // 4 MiB for sessions, 3 MiB of it for what is kept
	var open []*Account
	for client := range 20 {
		for n := 0; ; n++ {
			a := b.OpenKept(client, "calls that wait for this client")
			open = append(open, a)
			var full *FullError
			if err := a.Add(10_001); errors.As(err, &full) {
				if client == 0 && (n < 200 || n*10_001 > 3<<20) || full.Most != 3<<20 || !strings.Contains(full.Error(), "the calls that wait for this client would be") {
					t.Errorf("client %d has %d: %v", client, n, err)
				}
				break
			}
		}
	}
	if used := b.Figures().Used; used > 3<<20 || used%10_001 != 0 {
		t.Errorf("%d bytes", used)
	}
	place := b.OpenSession("another")
	if err := place.Add(500 * kib); err != nil {
		t.Error(err)
	}
	for _, a := range append(open, place) {
		a.Close()
	}
	checkEmpty(t, b)
}
