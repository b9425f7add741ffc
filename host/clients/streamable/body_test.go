package streamable

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// raw writes text on a new connection and reads the answer.
func (w *server) raw(text string) (*http.Response, string) {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(stuck))
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	return res, read(w.t, res)
}

// stuck is the timeout of tests that would otherwise wait forever.
const stuck = time.Minute

// TestRefusedBeforeBody checks requests that are refused before their body is sent.
func TestRefusedBeforeBody(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{Tokens: tokens("secret")}})
	g := w.client()
	g.token = "secret"
	g.initialize("2025-11-25")
	const good, large = "Authorization: Bearer secret\r\nContent-Type: application/json\r\n", "Content-Length: 31457280\r\n"
	for _, tt := range []struct {
		name, method, header string
		status               int
	}{
		{"no token", "POST", "Content-Type: application/json\r\n" + large, 401},
		{"no token, small", "POST", "Content-Type: application/json\r\nContent-Length: 100\r\n", 401},
		{"no token, no length", "POST", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", 401},
		{"other token", "POST", "Authorization: Bearer other\r\n" + large, 401},
		{"foreign page", "POST", good + "Origin: https://evil.example\r\n" + large, 403},
		{"no session", "POST", good + large, 413},
		{"unknown session", "POST", good + "Mcp-Session-Id: x\r\n" + large, 404},
		{"unknown session, small", "POST", good + "Mcp-Session-Id: x\r\nContent-Length: 100\r\n", 404},
		{"unknown session, continue", "POST", good + "Mcp-Session-Id: x\r\nExpect: 100-continue\r\n" + large, 404},
		{"too large", "POST", good + "Mcp-Session-Id: " + g.id + "\r\nContent-Length: 99999999999\r\n", 413},
		{"not JSON", "POST", "Authorization: Bearer secret\r\n" + large, 415},
		{"compressed", "POST", good + "Mcp-Session-Id: " + g.id + "\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n", 415},
		{"GET with body", "GET", good + "Mcp-Session-Id: " + g.id + "\r\nContent-Length: 100\r\n", 400},
		{"DELETE with body", "DELETE", good + "Mcp-Session-Id: " + g.id + "\r\n" + large, 400},
		{"PUT", "PUT", good + large, 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &server{t: t, url: w.url}
			res, text := w.raw(tt.method + " / HTTP/1.1\r\nHost: localhost\r\n" + tt.header + "\r\n")
			if res.StatusCode != tt.status || !strings.Contains(text, `"error"`) {
				t.Errorf("got %s %s, want %d", res.Status, text, tt.status)
			}
		})
	}
	if got := g.call(ping); got != pong { // "DELETE with body" has deleted nothing
		t.Error(got)
	}
}

// TestEarlyBody checks bodies without a session that are as large as allowed, and one
// byte larger.
func TestEarlyBody(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	initialize := func(size int) string {
		const begin, end = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","x":"`, `"}}`
		return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	}
	for size, want := range map[int]int{maxInitialize: 200, maxInitialize + 1: 413} {
		for _, length := range []int64{int64(size), -1} {
			r := w.client().request(t.Context(), "POST", initialize(size))
			r.ContentLength = length
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if text := read(t, res); res.StatusCode != want {
				t.Errorf("%d bytes, length %d: %s %s", size, length, res.Status, text)
			}
		}
	}
}

// pipes is a listener of connections in memory, for synctest.
type pipes struct {
	accept chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.accept <- theirs
	return ours
}

// TestSlowBody checks bodies that arrive at several rates.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	const size = maxInitialize
	for _, tt := range []struct {
		name   string
		handle func(h *Handler) http.Handler // nil: h
		every  time.Duration                 // between pieces
		piece  int
		status string
		after  time.Duration // at most
	}{
		{"nothing", nil, time.Hour, 1, "408", bodyGrace},
		{"a byte a second", nil, time.Second, 1, "408", bodyGrace + time.Second},
		{"an eighth of the rate", nil, time.Second, bodyRate / 8, "408", bodyGrace * 8 / 7},
		{"the rate", nil, time.Second, bodyRate, "400", time.Minute}, // not JSON, but read to the end
		{"no reader", func(*Handler) http.Handler { return http.NotFoundHandler() }, time.Hour, 1, "404", bodyGrace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := clienttest.New()
				h := New(t.Context(), Options{Session: options(b)})
				var handler http.Handler = h
				if tt.handle != nil {
					handler = tt.handle(h)
				}
				srv, listener := NewServer(handler, ServerOptions{Log: silent}), newPipes()
				served := make(chan error, 1)
				go func() { served <- srv.Serve(listener) }()
				c := listener.dial()
				began := time.Now()
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for n := 0; n < size; n += tt.piece {
						time.Sleep(tt.every)
						if _, err := c.Write(bytes.Repeat([]byte("x"), min(tt.piece, size-n))); err != nil {
							return
						}
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); !strings.HasPrefix(res.Status, tt.status) || took > tt.after {
					t.Errorf("%s after %v", res.Status, took)
				}
				_ = c.Close()
				<-sent
				if err := h.Close(context.Background()); err != nil {
					t.Error(err)
				}
				_ = srv.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestBodiesShareTheBudget checks that a body waits for room in the budget.
func TestBodiesShareTheBudget(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	shared := budget.New(19 * size)
	w := newServer(t, Options{Session: clients.Options{Budget: shared}})
	other := shared.Open("a run")
	if err := other.Acquire(t.Context(), 3*size); err != nil {
		t.Fatal(err)
	}
	g := w.join("2025-11-25")
	answer := make(chan string)
	go func() {
		answer <- g.call(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","x":"` + strings.Repeat("x", size) + `"}}`)
	}()
	for shared.Figures().Waiting == 0 { // the body waits once the body is larger than the rest of the budget
		runtime.Gosched()
	}
	if got := g.call(ping); got != pong { // small ones do not wait
		t.Error(got)
	}
	other.Close()
	if got := <-answer; len(got) < size {
		t.Errorf("got %d bytes", len(got))
	}
	w.close()
	for shared.Figures().Used != 0 { // the answer counts until its memory is free
		runtime.GC()
	}
	if left := shared.Figures(); left.Used != 0 || left.Waiting != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestBodyWithoutRoom checks a body that waits for room in vain.
func TestBodyWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		shared := budget.New(6 * size)
		other, beyond := shared.Open("a run"), shared.Open("a body before")
		for _, hold := range []*budget.Hold{other, beyond} {
			if err := hold.Acquire(t.Context(), size*3/4); err != nil {
				t.Fatal(err)
			}
		}
		b := clienttest.New()
		session := options(b)
		session.Budget, session.MaxMessage = shared, 4*size
		h := New(t.Context(), Options{Session: session})
		client := &caller{t, h}
		id := client.join(home, "")
		if out := client.post(home, "", id, strings.Repeat("x", size/2)); out.Code != 503 || out.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", out.Code, out.Body)
		}
		other.Close()
		beyond.Close()
		if out := client.post(home, "", id, strings.Repeat("x", 2*size)); out.Code != 413 || !strings.Contains(out.Body.String(), "max_total_memory") {
			t.Errorf("more than there is: %d %s", out.Code, out.Body)
		}
		if err := h.Close(context.Background()); err != nil || shared.Figures().Used != 0 {
			t.Errorf("%v, left: %+v", err, shared.Figures())
		}
	})
}

// inPieces pauses between two pieces, so that other goroutines run.
type inPieces struct{ io.Reader }

func (r inPieces) Read(b []byte) (int, error) {
	time.Sleep(testenv.Quiet(time.Millisecond))
	return r.Reader.Read(b[:min(len(b), 64<<10)])
}

// TestManyBodiesAtOnce checks more bodies at once than the budget has room for. No body waits for
// the other bodies until the timeout.
func TestManyBodiesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bodies, size = 40, 1 << 20
		shared := budget.New(16 * 2 * size)
		b := clienttest.New()
		session := options(b)
		session.Budget, session.MaxMessage = shared, 2*size
		h := New(t.Context(), Options{Session: session})
		client := &caller{t, h}
		id := client.join(home, "")
		began := time.Now()
		var all sync.WaitGroup
		codes := make([]int, bodies)
		for n := range codes {
			all.Go(func() {
				codes[n] = client.postFrom(home, "", id, inPieces{strings.NewReader(strings.Repeat("x", size))}).Code
			})
		}
		all.Wait()
		count := map[int]int{}
		for _, code := range codes {
			count[code]++
		}
		if took := time.Since(began); count[400] != bodies || took > budgetWait { // 400: not JSON, but read to the end
			t.Errorf("%v after %v", count, took)
		}
		if err := h.Close(context.Background()); err != nil || shared.Figures().Used != 0 {
			t.Errorf("%v, left: %+v", err, shared.Figures())
		}
	})
}

// TestMemoryIsReturned checks that memory is returned once after each burst.
func TestMemoryIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		given := make(chan time.Time, 10)
		g := newMemoryReturner(func() { given <- time.Now() })
		ctx, cancel := context.WithCancel(t.Context())
		var owner sync.WaitGroup
		owner.Go(func() { g.run(ctx) })
		g.add(burst - 1) // not a burst
		g.add(-(burst - 1))
		time.Sleep(time.Hour)
		for range 3 {
			g.add(burst)
			time.Sleep(time.Hour) // the burst goes on
			g.add(burst)
			g.add(-2 * burst)
			time.Sleep(returnDelay / 2)
			g.add(burst) // another burst begins
			g.add(-burst)
			end := time.Now()
			time.Sleep(time.Hour)
			if n := len(given); n != 1 {
				t.Fatalf("given back %d times", n)
			}
			if at := <-given; at.Sub(end) != returnDelay {
				t.Errorf("given back %v after the end", at.Sub(end))
			}
		}
		cancel()
		owner.Wait()
	})
}
