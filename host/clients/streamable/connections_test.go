package streamable

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTooManyConnections checks that idle connections make room for new connections, and
// connections in use do not.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	w := newServerWith(t, Options{}, ServerOptions{MaxConnections: 3})
	// The session is begun without a connection, since the server would notice only later that the
	// client has closed the connection.
	g := w.client()
	g.id = (&caller{t, w.http}).join(home, "")
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(stuck))
		return c
	}
	closed := func(c net.Conn) bool {
		_, err := c.Read(make([]byte, 1))
		timeout, ok := err.(net.Error)
		return err != nil && !(ok && timeout.Timeout())
	}
	silent := []net.Conn{dial(), dial(), dial()}
	for i := range 3 { // each replaces an idle connection
		c := dial()
		_ = g.request(t.Context(), "POST", callOf(i, "wait", "{}")).Write(c)
		<-w.backend.Waiting
	}
	for i, c := range silent {
		if !closed(c) {
			t.Errorf("connection %d is open", i)
		}
	}
	if !closed(dial()) {
		t.Error("a fourth connection is open")
	}
	w.backend.Release <- struct{}{}
	w.backend.Release <- struct{}{}
	w.backend.Release <- struct{}{}
}

// addressed is a connection without data, from a given address.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (a *addressed) Close() error { a.closed = true; return nil }
func (a *addressed) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", a.from)
	return addr
}

// TestConnectionsOfAddresses opens, uses and closes connections from several addresses
// in random order. No limit is ever exceeded, and no connection in use is closed.
func TestConnectionsOfAddresses(t *testing.T) {
	t.Parallel()
	const most, mostPerAddress = 20, 8
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	c := newConnections(most, mostPerAddress, silent)
	var all []*addressed
	busy := map[*addressed]bool{}
	for step := range 5000 {
		switch k := random.IntN(10); {
		case k < 6 || len(all) == 0:
			a := &addressed{from: fmt.Sprintf("[2001:db8:0:%d::%x]:1", random.IntN(6), random.IntN(1000))}
			c.state(a, http.StateNew)
			all = append(all, a)
			for b := range busy {
				if b.closed {
					t.Fatalf("seed %d, step %d: a connection in use was closed", seed, step)
				}
			}
		case k < 8:
			a := all[random.IntN(len(all))]
			c.state(a, http.StateActive)
			busy[a] = true
		case k < 9:
			a := all[random.IntN(len(all))]
			c.state(a, http.StateIdle)
			delete(busy, a)
		default:
			i := random.IntN(len(all))
			all[i].closed = true
		}
		all = deleteClosed(c, all, busy)
		of := map[string]int{}
		for _, a := range all {
			of[clientAddress(a.from).String()]++
		}
		for address, n := range of {
			if n > mostPerAddress {
				t.Fatalf("seed %d, step %d: %d of %s", seed, step, n, address)
			}
		}
		if len(all) > most || len(all) != len(c.open) {
			t.Fatalf("seed %d, step %d: %d are open, of which it knows %d", seed, step, len(all), len(c.open))
		}
	}
}

// deleteClosed reports closed connections, as http.Server does.
func deleteClosed(c *connections, all []*addressed, busy map[*addressed]bool) (open []*addressed) {
	for _, a := range all {
		if a.closed {
			c.state(a, http.StateClosed)
			delete(busy, a)
		} else {
			open = append(open, a)
		}
	}
	return open
}

// TestLargestAddressLosesConnection checks that the address with most connections loses a
// connection, even if another connection has been idle for longer.
func TestLargestAddressLosesConnection(t *testing.T) {
	t.Parallel()
	c := newConnections(4, 0, silent)
	first := &addressed{from: "192.0.2.1:1"}
	crowd := []*addressed{{from: "192.0.2.2:1"}, {from: "192.0.2.2:2"}}
	busy := &addressed{from: "192.0.2.3:1"}
	for _, a := range append([]*addressed{first, busy}, crowd...) {
		c.state(a, http.StateNew)
	}
	c.state(busy, http.StateActive)
	late := &addressed{from: "192.0.2.4:1"}
	c.state(late, http.StateNew)
	if first.closed || busy.closed || late.closed || !crowd[0].closed || crowd[1].closed {
		t.Errorf("first %t, busy %t, late %t, crowd %t %t", first.closed, busy.closed, late.closed, crowd[0].closed, crowd[1].closed)
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32", "127.0.0.1:1": "127.0.0.1/32", "[::1]:1": "::1/128",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "pipe": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := clientAddress(in).String(); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestShareOfAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		address    string
		set, whole int
		want       int
	}{
		{"192.0.2.1:1", 0, 5, 3}, {"192.0.2.1:1", 0, 1, 1}, {"192.0.2.1:1", 4, 5, 4}, {"192.0.2.1:1", 9, 5, 5},
		{"127.0.0.1:1", 0, 5, 5}, {"[::1]:1", 0, 5, 5}, {"127.0.0.1:1", 2, 5, 2}, {"pipe", 0, 5, 3},
	} {
		if got := shareOfAddress(clientAddress(tt.address), tt.set, tt.whole); got != tt.want {
			t.Errorf("%s, %d of %d: %d, want %d", tt.address, tt.set, tt.whole, got, tt.want)
		}
	}
}
