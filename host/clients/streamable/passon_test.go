package streamable

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
)

// mistaken is a replica that always takes the other replica for the home of a request.
type mistaken struct {
	other  string
	link   *peer.Link
	passed atomic.Int32
}

func (m *mistaken) Home(string, string, []byte) string { return m.other }

func (m *mistaken) Forward(w http.ResponseWriter, r *http.Request, p peer.Passage) error {
	if m.passed.Add(1) > 3 {
		return peer.ErrUnreached // enough
	}
	return m.link.Forward(w, r, p)
}

// TestPassedOnOnce lets two replicas disagree about the home of a request: each takes the other
// replica for the home. The request is passed on once, and answered by the receiving replica.
func TestPassedOnOnce(t *testing.T) {
	t.Parallel()
	addresses := map[string]string{}
	listeners, replicas := map[string]net.Listener{}, map[string]*mistaken{"a": {other: "b"}, "b": {other: "a"}}
	for id := range replicas {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id], addresses[id] = ln, ln.Addr().String()
	}
	servers := map[string]*server{}
	for id, m := range replicas {
		m.link = peer.New(peer.Options{
			ID: id, Keys: func() [][]byte { return [][]byte{make([]byte, 32)} }, Log: silent,
			Address: func(of string) (string, bool) { return addresses[of], true },
		})
		s := newServer(t, Options{Replicas: m})
		servers[id] = s
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error)
		go func() { served <- m.link.Serve(ctx, listeners[id], s.http) }()
		t.Cleanup(func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			m.link.Close()
		})
	}
	g := servers["a"].client()
	g.answers(g.modern(modern("1", "tools/list", "")), 200,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","x":9007199254740993},{"name":"wait"}],"nextCursor":"2","resultType":"complete","ttlMs":1000,"cacheScope":"private","_meta":$S}}`)
	if a, b := replicas["a"].passed.Load(), replicas["b"].passed.Load(); a != 1 || b != 0 {
		t.Errorf("it was passed on %d times by the first replica, and %d times by the second", a, b)
	}
}
