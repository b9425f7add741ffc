package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen.
const patience = time.Minute

// network is the replicas of a test and where they listen.
type network struct {
	t  *testing.T
	mu sync.Mutex
	at map[string]string
}

func newNetwork(t *testing.T) *network { return &network{t: t, at: map[string]string{}} }

func (n *network) address(id string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.at[id]
	return at, ok
}

func (n *network) set(id, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[id] = at
}

// replica is one with its listener and what clients reach.
type replica struct {
	*Link
	at   string
	stop func()
}

// add adds a replica, whose keys can be changed.
func (n *network) add(id string, keys func() [][]byte, handler http.Handler) *replica {
	n.t.Helper()
	l := New(Options{ID: id, Keys: keys, Address: n.address})
	n.t.Cleanup(l.Close)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx, ln, handler) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("%s: %v", id, err)
		}
	})
	n.t.Cleanup(stop)
	n.set(id, ln.Addr().String())
	return &replica{l, ln.Addr().String(), stop}
}

// front serves clients of a replica, whose requests are all passed on to another one. Errors
// before the answer are in the answer.
func (n *network) front(from *replica, to string, token bearer.Digest) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var bad *Error
		switch err := from.Forward(w, r, Passage{To: to, Token: token}); {
		case errors.As(err, &bad) && bad.Started:
			fmt.Fprint(w, "data: lost\n\n")
		case errors.Is(err, ErrUnreached):
			http.Error(w, err.Error(), http.StatusBadGateway)
		case errors.Is(err, ErrLost):
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
		}
	}))
	n.t.Cleanup(s.Close)
	return s
}

func keys(first ...byte) func() [][]byte {
	var all [][]byte
	for _, b := range first {
		all = append(all, bytes.Repeat([]byte{b}, 32))
	}
	return func() [][]byte { return all }
}

// post sends a request and returns the answer.
func post(t *testing.T, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}

// TestForward checks what of a request and its answer goes through.
func TestForward(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	token := bearer.DigestOf("secret")
	n.add("a", keys(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c, ok := From(r.Context())
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		w.Header().Set("Mcp-Session-Id", "s")
		w.Header().Add("X-Many", "1")
		w.Header().Add("X-Many", "2")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, r.Method, r.URL, string(body), r.Header["Mcp-Param-N"], r.Header["Authorization"], r.Header["Idempotency-Key"], r.Header["X-Hop"],
			r.Header[tokenHeader], r.Header[clientHeader], c.Replica, c.Token == token, ok, host)
	}))
	b := n.add("b", keys(1), http.NotFoundHandler())
	s := n.front(b, "a", token)
	status, header, body := post(t, s.URL+"/mcp?x=1", "{}", "Mcp-Param-N", "1", "Mcp-Param-N", "2", "Authorization", "Bearer secret", "Idempotency-Key", "k",
		"Connection", "X-Hop", "X-Hop", "1", tokenHeader, bearer.DigestOf("other").String(), clientHeader, "10.0.0.1:1")
	if want := "POST/mcp?x=1{}[1 2] [] [] [] [] []btrue true127.0.0.1"; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if status != http.StatusAccepted || header.Get("Mcp-Session-Id") != "s" || len(header["X-Many"]) != 2 || header.Get("Content-Length") == "" {
		t.Errorf("%d %v", status, header)
	}
	s = n.front(b, "a", bearer.Digest{})
	if _, _, body := post(t, s.URL, "", tokenHeader, token.String()); !strings.Contains(body, "[] [] [] [] [] []bfalse true") {
		t.Errorf("without a token: %s", body)
	}
}

// TestStream checks that events reach the client one by one, that the end of the client reaches
// the other replica, and what the client gets when the other replica ends.
func TestStream(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	send, gone := make(chan string), make(chan error, 1)
	a := n.add("a", keys(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case text := <-send:
				fmt.Fprintf(w, "data: %s\n\n", text)
				if text == "three" {
					fmt.Fprint(w, "data: {")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					return
				}
			case <-r.Context().Done():
				gone <- r.Context().Err()
				return
			}
		}
	}))
	b := n.add("b", keys(1), http.NotFoundHandler())
	s := n.front(b, "a", bearer.Digest{})
	client := &http.Client{}
	defer client.CloseIdleConnections()
	open := func() (*bufio.Reader, func()) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(response.Body), func() { cancel(); response.Body.Close() }
	}
	next := func(from *bufio.Reader) string {
		line, err := from.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		_, _ = from.ReadString('\n')
		return strings.TrimSpace(line)
	}
	events, end := open()
	for _, text := range []string{"one", "two"} {
		send <- text
		if got := next(events); got != "data: "+text {
			t.Errorf("got %q", got)
		}
	}
	end()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the end of the client has not reached the replica")
	}
	// In the middle of an event nothing can follow.
	cut, end := open()
	defer end()
	send <- "three"
	if got := next(cut); got != "data: three" {
		t.Errorf("got %q", got)
	}
	if _, err := cut.Peek(7); err != nil {
		t.Fatal(err)
	}
	whole, end := open()
	defer end()
	send <- "four"
	if got := next(whole); got != "data: four" {
		t.Errorf("got %q", got)
	}
	a.stop()
	rest, err := io.ReadAll(cut)
	both, err2 := io.ReadAll(whole)
	if err == nil || strings.Contains(string(rest), "lost") {
		t.Errorf("cut in an event: %q %v", rest, err)
	}
	if err2 != nil || string(both) != "data: lost\n\n" {
		t.Errorf("cut between events: %q %v", both, err2)
	}
	if status, _, body := post(t, s.URL, ""); status != http.StatusBadGateway || !strings.Contains(body, "replica a") {
		t.Errorf("after its end: %d %s", status, body)
	}
}

// TestLost checks that a request that may have been carried out is not sent again.
func TestLost(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	var count atomic.Int32
	n.add("a", keys(1), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		panic(http.ErrAbortHandler)
	}))
	b := n.add("b", keys(1), http.NotFoundHandler())
	s := n.front(b, "a", bearer.Digest{})
	for range 2 { // the second time over a connection that exists
		if status, _, body := post(t, s.URL, "{}", "Idempotency-Key", "k"); status != http.StatusGatewayTimeout || !strings.Contains(body, ErrLost.Error()) {
			t.Errorf("%d %s", status, body)
		}
	}
	if n := count.Load(); n != 2 {
		t.Errorf("%d requests for 2", n)
	}
}

// TestUnreached checks what can be said of replicas that are not there, and of another that has
// the address of one that is gone.
func TestUnreached(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	var reached atomic.Int32
	counted := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	c := n.add("c", keys(1), counted)
	b := n.add("b", keys(1), http.NotFoundHandler())
	n.set("moved", c.at)
	n.set("ended", "127.0.0.1:1") // nobody listens there
	for _, id := range []string{"moved", "ended", "unknown"} {
		if status, _, body := post(t, n.front(b, id, bearer.Digest{}).URL, "{}"); status != http.StatusBadGateway || !strings.Contains(body, "replica "+id+": "+ErrUnreached.Error()) {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests have reached another replica", n)
	}
}

// TestStrangers checks that nobody reaches the listener who has no key of the fleet.
func TestStrangers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	var reached atomic.Int32
	a := n.add("a", keys(1), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	forged := n.add("b", keys(2), http.NotFoundHandler())
	if status, _, body := post(t, n.front(forged, "a", bearer.Digest{}).URL, "{}"); status != http.StatusBadGateway {
		t.Errorf("with another key: %d %s", status, body)
	}
	own, err := newIdentity("b", keys(2)())
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate":               {},
		"that of another fleet":        {Certificates: []tls.Certificate{own.own}},
		"TLS 1.2":                      {MaxVersion: tls.VersionTLS12},
		"no certificate, with a token": {},
	} {
		config.InsecureSkipVerify = true // the stranger does not care
		config.NextProtos = []string{"h2"}
		client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+a.at+"/mcp", strings.NewReader("{}"))
		r.Header.Set(tokenHeader, bearer.DigestOf("secret").String())
		if response, err := client.Do(r); err == nil {
			response.Body.Close()
			t.Errorf("%s: %s", name, response.Status)
		}
		client.CloseIdleConnections()
	}
	if response, err := http.Post("http://"+a.at+"/mcp", "application/json", strings.NewReader("{}")); err == nil { //nolint
		if response.StatusCode != http.StatusBadRequest { // net/http says that TLS is needed
			t.Errorf("without TLS: %s", response.Status)
		}
		response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests have reached the handler", n)
	}
}

// TestReplay sends again what a replica has sent.
func TestReplay(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	var reached atomic.Int32
	a := n.add("a", keys(1), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var mu sync.Mutex
	var recorded bytes.Buffer
	go func() {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", a.at)
		if err != nil {
			in.Close()
			return
		}
		go func() { _, _ = io.Copy(in, out); in.Close() }()
		_, _ = io.Copy(io.MultiWriter(out, lockedWriter{&mu, &recorded}), in)
		out.Close()
	}()
	b := n.add("b", keys(1), http.NotFoundHandler())
	n.set("a", ln.Addr().String())
	if status, _, body := post(t, n.front(b, "a", bearer.Digest{}).URL, "{}"); status != http.StatusOK || reached.Load() != 1 {
		t.Fatalf("%d %s", status, body)
	}
	b.Close()
	mu.Lock()
	bytesSent := bytes.Clone(recorded.Bytes())
	mu.Unlock()
	again, err := net.Dial("tcp", a.at)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	_ = again.SetDeadline(time.Now().Add(patience))
	_, _ = again.Write(bytesSent)
	_, _ = io.Copy(io.Discard, again) // until the other side closes
	if n := reached.Load(); n != 1 {
		t.Errorf("%d requests have reached the handler", n)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestRotation changes the key of the fleet, one replica after the other.
func TestRotation(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	var ofA, ofB atomic.Pointer[func() [][]byte]
	set := func(p *atomic.Pointer[func() [][]byte], k ...byte) { f := keys(k...); p.Store(&f) }
	set(&ofA, 1)
	set(&ofB, 1)
	n.add("a", func() [][]byte { return (*ofA.Load())() }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b := n.add("b", func() [][]byte { return (*ofB.Load())() }, http.NotFoundHandler())
	s := n.front(b, "a", bearer.Digest{})
	check := func(what string, want int) {
		t.Helper()
		if status, _, body := post(t, s.URL, "{}"); status != want {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	check("one key", http.StatusOK)
	set(&ofA, 1, 2)
	check("one has another behind it", http.StatusOK)
	set(&ofB, 1, 2)
	set(&ofB, 2, 1)
	check("one uses the other first", http.StatusOK)
	set(&ofA, 2, 1)
	set(&ofA, 2)
	check("the old one is gone", http.StatusOK)
	set(&ofB, 2)
	check("everywhere", http.StatusOK)
	// A connection that exists ends with its key.
	set(&ofA, 3)
	check("the key was taken away", http.StatusBadGateway)
}
